"""What all of the suite shares: errors, text, TOML, JSON and numpy files from anybody."""
