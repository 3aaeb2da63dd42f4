"""The routes of `/v1`: made of the table of acts, and those that are no act of the library."""
