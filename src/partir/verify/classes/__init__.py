"""Classes: values of both programs, equal if they compute the same."""
