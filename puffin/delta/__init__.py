"""Delta tables: their log replayed, described in the terms of `puffin.tables`, with statistics beside it."""
