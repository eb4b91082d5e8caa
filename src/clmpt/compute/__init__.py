"""Where tensors live: devices and the memory they take."""
