"""The options of every command, declared without loading what the commands need."""

from __future__ import annotations

from clmpt.cli.options.compare_options import comparing_options
from clmpt.cli.options.completion_options import help_options
from clmpt.cli.options.evaluate_options import bench_options, measuring_options
from clmpt.cli.options.fit_options import first_options
from clmpt.cli.options.graph_options import graph_options
from clmpt.cli.options.index_options import index_options
from clmpt.cli.options.pretrain_options import predictor_options
from clmpt.cli.options.query_options import sampling_options, stored_query_options
from clmpt.cli.options.reproduce_options import experiment_options
from clmpt.cli.options.serve_options import service_options
from clmpt.cli.options.share_options import sharing_options
from clmpt.cli.options.solve_options import asking_options
from clmpt.cli.options.table_options import model_table_options
from clmpt.cli.options.train_options import reasoner_options

# In the order of the help.
COMMAND_GROUPS = (
    first_options,
    graph_options,
    asking_options,
    service_options,
    sampling_options,
    stored_query_options,
    predictor_options,
    reasoner_options,
    measuring_options,
    bench_options,
    index_options,
    experiment_options,
    comparing_options,
    model_table_options,
    sharing_options,
    help_options,
)
