"""What is shown of runs: tables, charts and pages, beside published figures."""
