package cli_test

import (
	"os"
	"testing"
)

// TestMain keeps the settings of who runs the tests out of them.
func TestMain(m *testing.M) {
	os.Setenv("XDG_CONFIG_HOME", "/nonexistent") //nolint:errcheck // the name is a good one
	os.Exit(m.Run())
}
