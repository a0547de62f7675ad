package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is the version of a build that has none of its own.
const version = "0.1.0"

func (e *env) newVersion() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  cortex version --json",
		Args:    exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return json.NewEncoder(e.stdout).Encode(map[string]string{"version": buildVersion(), "go": runtime.Version(), "platform": platform})
			}
			_, err := io.WriteString(e.stdout, versionLine())
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}

const platform = runtime.GOOS + "/" + runtime.GOARCH

func versionLine() string {
	return fmt.Sprintf("cortex %s (%s, %s)\n", buildVersion(), runtime.Version(), platform)
}

func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return version
}
