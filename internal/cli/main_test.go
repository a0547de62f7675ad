package cli_test

import (
	"os"
	"testing"
)

// TestMain isolates the tests from the settings of the user who runs them.
func TestMain(m *testing.M) {
	os.Setenv("XDG_CONFIG_HOME", "/nonexistent") //nolint:errcheck // the name is a good one
	os.Exit(m.Run())
}
