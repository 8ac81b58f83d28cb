"""Plain JAX models, and the schedules that partition them."""
