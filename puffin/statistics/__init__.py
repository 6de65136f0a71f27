"""What statistics files and private state say of a table, and how new ones are written."""
