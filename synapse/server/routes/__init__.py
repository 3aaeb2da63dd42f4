"""The routes of `/v1`, one module for a noun. Each calls one method of the library."""
