package cli

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
)

// newMan returns a hidden command for packagers, who get the pages from the same source as the help.
func (e *env) newMan() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the manual pages into a folder",
		Example: "  cortex man ~/.local/share/man/man1",
		Args:    typed.Exact("DIR"),
		Hidden:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true // otherwise each page contains its generator and date
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "Cortex " + buildVersion(), Manual: "Cortex"}, args[0])
		},
	}
}
