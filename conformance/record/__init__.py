"""What a run leaves behind: results, journal, certificate, folder and archive."""
