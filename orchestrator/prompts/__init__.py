"""What a run begins with: chosen, rendered, fitted to its budget, and recorded in a receipt."""
