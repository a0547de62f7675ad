package cli

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newMan is hidden: it is for those who make packages, who get the pages from where the help is from.
func (e *env) newMan() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the manual pages into a folder",
		Example: "  cortex man ~/.local/share/man/man1",
		Args:    exactArgs("DIR"),
		Hidden:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true // or each page says who made it, and when
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "Cortex " + buildVersion(), Manual: "Cortex"}, args[0])
		},
	}
}
