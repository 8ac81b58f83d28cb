"""When two results are the same: what rounding and named assumptions leave open."""
