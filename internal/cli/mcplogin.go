package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/agents/mcp"
	"github.com/cortex-orchestrator/cortex/internal/datadir"
)

// clientSecretVar is the environment variable with the secret that belongs to --client-id.
const clientSecretVar = "MCP_CLIENT_SECRET"

// newMCPLogin returns the command that logs the user in at an MCP server.
func (e *env) newMCPLogin() *cobra.Command {
	var f mcpFlags
	var id string
	var port int
	c := &cobra.Command{
		Use:   "login [NAME | --url URL]",
		Short: "Log in at an MCP server that wants OAuth",
		Long: `Log in at an MCP server that wants OAuth, with a browser: this prints the address to open, and on a terminal opens it. The browser returns
to a port of this machine; on a remote machine, choose the port with --callback-port and forward it: ssh -L PORT:127.0.0.1:PORT HOST.
NAME is a server in a file, as for ` + "`cortex agent mcp`" + `, which uses the login and refreshes it. The tokens are in the folder mcp/logins of
--data, for the user alone.

Cortex registers itself with the authorization server. Where that is not possible, register it by hand as a native application that
returns to http://127.0.0.1/callback, and give its id as --client-id, and its secret, if it has one, in ` + clientSecretVar + `.`,
		Example: "  cortex mcp login --url https://example.com/mcp\n  cortex mcp login tracker --config .mcp.json\n" +
			"  cortex mcp login --url https://example.com/mcp --client-id 4711 --callback-port 8765",
		Args: func(cmd *cobra.Command, args []string) error {
			if port < 0 || port > 65535 {
				return usagef("--callback-port %d: it is from 1 to 65535", port)
			}
			return f.checkOne(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			servers, err := f.servers(cmd, args)
			if err != nil {
				return err
			}
			s := servers[0]
			err = mcp.Login(cmd.Context(), s, &mcp.LoginOptions{
				Dir: e.mcpDir(), Version: buildVersion(), ClientID: id, ClientSecret: os.Getenv(clientSecretVar), Port: port,
				Show: func(url string) {
					fmt.Fprintf(e.stderr, "To log in at %s, open\n\n%s\n\n", s.Name, url)
					if e.onTerminal() {
						openBrowser(url)
					}
				},
			})
			switch {
			case errors.Is(err, mcp.ErrNoLogin):
				e.tell("%s asks for no login", s.Name)
				return nil
			case errors.Is(err, mcp.ErrLoggedIn):
				e.tell("logged in at %s already: `cortex mcp logout %s` ends that", s.Name, f.again(cmd, args))
				return nil
			case err != nil:
				return err
			}
			e.tell("logged in at %s", s.Name)
			e.advise("cortex agent mcp "+f.again(cmd, args), "make an agent of it")
			return nil
		},
	}
	f.addOne(c)
	c.Flags().StringVar(&id, "client-id", "", "`ID`: id of a client that you have registered, or the https URL of a client id metadata document")
	c.Flags().IntVar(&port, "callback-port", 0, "`PORT`: port of 127.0.0.1 that the browser returns to (default any)")
	return c
}

// newMCPLogout returns the command that forgets a login.
func (e *env) newMCPLogout() *cobra.Command {
	var f mcpFlags
	c := &cobra.Command{
		Use:   "logout [NAME | --url URL]",
		Short: "Forget the login at an MCP server",
		Long: `Forget the login at an MCP server: its agents stop using it. The authorization server is not told; to end the login there too, use
its own page.`,
		Example: "  cortex mcp logout --url https://example.com/mcp\n  cortex mcp logout tracker --config .mcp.json",
		Args:    f.checkOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			servers, err := f.servers(cmd, args)
			if err != nil {
				return err
			}
			had, err := mcp.Logout(servers[0], e.mcpDir())
			switch {
			case err != nil:
				return err
			case !had:
				return fmt.Errorf("there is no login at %s", servers[0].Name)
			}
			e.tell("logged out of %s", servers[0].Name)
			return nil
		},
	}
	f.addOne(c)
	return c
}

// mcpDir is where agents of MCP servers keep what they need.
func (e *env) mcpDir() string { return datadir.MCP(e.settings.data) }

// addOne adds the flags of a command for one server.
func (f *mcpFlags) addOne(c *cobra.Command) {
	c.Flags().StringVar(&f.config, "config", mcpConfig, "`FILE`: list of the servers; for the settings of Cortex, set CORTEX_CONFIG")
	c.Flags().StringVar(&f.url, "url", "", "`URL`: server that is not in a file")
	c.ValidArgsFunction = f.complete
}

// checkOne returns what is wrong with the command line of a command for one server, or nil.
func (f *mcpFlags) checkOne(cmd *cobra.Command, args []string) error {
	switch {
	case f.url != "" && (len(args) > 0 || cmd.Flags().Changed("config")):
		return usagef("--url names the server: give it without NAME and --config")
	case f.url == "" && len(args) == 0:
		return usagef("which server? %s NAME, or --url URL", cmd.CommandPath())
	case len(args) > 1:
		return usagef("unexpected argument %q: %s NAME, or --url URL", args[1], cmd.CommandPath())
	}
	return nil
}

// again returns the arguments that name the server of a command line.
func (f *mcpFlags) again(cmd *cobra.Command, args []string) string {
	if len(args) == 0 {
		return "--url " + shellWord(f.url)
	}
	text := shellWord(args[0])
	if cmd.Flags().Changed("config") {
		text += " --config " + shellWord(f.config)
	}
	return text
}

// openBrowser opens a URL in the user's browser, if there is one. It may outlive this process.
func openBrowser(url string) {
	argv := []string{"xdg-open", url}
	switch {
	case runtime.GOOS == "darwin":
		argv[0] = "open"
	case runtime.GOOS == "windows":
		argv = []string{"rundll32", "url.dll,FileProtocolHandler", url}
	case os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "": // it would open a browser within the terminal
		return
	}
	c := exec.Command(argv[0], argv[1:]...)
	if c.Start() == nil { // else the address was shown
		_ = c.Process.Release()
	}
}
