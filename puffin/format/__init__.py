"""The Puffin file format: bytes in, values out; no tables, no paths."""
