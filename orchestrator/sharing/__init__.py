"""Tool calls carried out: another agent's result is given, waited for, or made and shared."""
