"""Training steps beside Shardy's and GSPMD's, on eight virtual CPU devices."""
