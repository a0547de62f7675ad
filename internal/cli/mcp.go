package cli

import "github.com/spf13/cobra"

// newMCP returns the commands for MCP servers that need more than `cortex agent mcp`.
func (e *env) newMCP() *cobra.Command {
	c := &cobra.Command{
		Use:     "mcp",
		Short:   "Log in at MCP servers, and out",
		Long:    "Log in at MCP servers that want OAuth, and out. `cortex agent mcp` makes agents of servers.",
		Example: "  cortex mcp login --url https://example.com/mcp\n  cortex mcp logout --url https://example.com/mcp",
		Args:    exactArgs(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(e.newMCPLogin(), e.newMCPLogout())
	return c
}
