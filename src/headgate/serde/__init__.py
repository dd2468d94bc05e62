"""How values become bytes, and whether stored bytes can be read. Modules named in stored bytes stay here."""
