package cli

// giveBack does nothing here: files belong to whom their folder says.
func giveBack(string) {}
