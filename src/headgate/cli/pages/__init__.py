"""What commands print for people: tables and texts, made of what was asked; no command is defined here."""
