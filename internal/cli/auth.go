package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/internal/datadir"
	"github.com/cortex-orchestrator/cortex/internal/lookalike"
	"github.com/cortex-orchestrator/cortex/internal/screen"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/repl"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// newAuth returns the commands that make keys. They work on a folder and need no server.
func (e *env) newAuth() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "auth",
		Short: "Make the keys by which a server knows who is there",
		Long: `Make the keys and credentials by which the server knows who is there. Without them, whoever reaches the server may do
everything. With them, each tenant is by itself; an agent may announce itself, take its own tasks and send its own results, people may
talk to Cortex and read conversations and cards, and nobody can speak in another's name.`,
		Example: "  cortex auth init\n  cortex serve --auth ~/.local/state/cortex/auth\n  cortex auth add agent weather\n  cortex auth list\n  cortex auth revoke agent:weather",
		Args:    typed.Exact(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.PersistentFlags().StringVar(&dir, "auth", "", "`DIR`: folder of the keys (default auth in the data folder)")
	setting(c.PersistentFlags(), "auth")
	folder := func() (string, error) {
		if dir == "" || dir == none { // as when --auth is not set
			return filepath.Join(e.settings.data, "auth"), nil
		}
		return filepath.Abs(dir)
	}
	c.AddCommand(e.newAuthInit(&dir, folder), e.newAuthAdd(folder), e.newAuthList(folder), e.newAuthToken(folder), e.newAuthRevoke(folder))
	return c
}

func (e *env) newAuthInit(dir *string, folder func() (string, error)) *cobra.Command {
	return &cobra.Command{
		Use:   "init [DIR]",
		Short: "Make the keys of a server and of a tenant",
		Long: `Make an operator, and for the tenant an account with credentials for its orchestrator and for people. What is there already
stays as it is. The folder is for its owner only; operator.nk is needed no more, and is best kept elsewhere.`,
		Example: "  cortex auth init\n  cortex auth init /etc/cortex/auth --tenant acme",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("unexpected argument %q: cortex auth init [DIR]", args[1])
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				*dir = args[0]
			}
			dir, err := folder()
			if err != nil {
				return err
			}
			tenant := e.settings.tenant
			_, missing := os.Stat(auth.People(dir, tenant))
			if err := auth.Init(dir, tenant); err != nil {
				return err
			}
			fmt.Fprintf(e.stdout, "keys in %s\n", dir)
			if missing == nil {
				e.say("these were there already, and stay as they are")
			} else if _, err := os.Stat(datadir.Store(e.settings.data)); err == nil {
				e.say("a service with keys begins without the conversations that are here: those stay with a service without keys")
			}
			e.advise(
				"cortex serve"+tenantFlag(tenant)+" --auth "+shellWord(dir), "let in only whom the keys know",
				"cortex auth add agent ID"+tenantFlag(tenant), "credentials for an agent",
				"cortex chat"+tenantFlag(tenant)+" --creds "+shellWord(auth.People(dir, tenant)), "for people",
				"include "+auth.Resolver(dir), "in the configuration of a nats-server of your own",
			)
			return nil
		},
	}
}

func (e *env) newAuthAdd(folder func() (string, error)) *cobra.Command {
	c := &cobra.Command{
		Use:     "add agent|user|tenant NAME",
		Short:   "Make credentials for an agent, a person or a tenant",
		Example: "  cortex auth add agent weather\n  cortex auth add user ada --tenant acme\n  cortex auth add tenant acme",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("for whom? `cortex auth add agent ID`, `cortex auth add user NAME` or `cortex auth add tenant NAME`")
			}
			return usagef("%q gets no credentials: it is agent, user or tenant", prompt.Clean(args[0], 40))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, kind := range []struct {
		name, arg, short, long string
		id                     func(name string) string // NAME may be given as lists show it
		check                  func(id string) error    // nil: what add refuses
		file                   func(dir, tenant, id string) string
		add                    func(dir, tenant, id string) (file string, err error)
		next                   func(dir, file, tenant, name string) []string
	}{
		{
			"agent", "ID", "Make credentials for an agent",
			`Make credentials for an agent. ID is the name on its card, with _ for spaces; the built-in agents can be
named as in cortex agent.`,
			func(id string) string {
				if card, _, ok := e.settings.program.lookup(id); ok {
					return card.Name
				}
				return id
			},
			checkAgentName, auth.AgentFile, auth.AddAgent,
			func(_, file, tenant, id string) []string {
				if card, _, ok := e.settings.program.lookup(id); ok {
					return []string{"cortex agent " + strings.TrimPrefix(card.Name, "agent_") + tenantFlag(tenant) + " --creds " + shellWord(file), "run it"}
				}
				run := "cortex agent exec" + tenantFlag(tenant) + " --creds " + shellWord(file) + " --card FILE -- PROGRAM"
				return []string{run, "run it; its card has the name " + shellWord(id)}
			},
		},
		{
			"user", "NAME", "Make credentials for a person", `Make credentials for a person, who then speaks as "user:NAME".`,
			userName, checkPersonName, auth.UserFile, auth.AddUser,
			func(_, file, tenant, _ string) []string {
				return []string{"cortex chat" + tenantFlag(tenant) + " --creds " + shellWord(file), "it has to be given to that person only"}
			},
		},
		{
			"tenant", "NAME", "Make the keys of a tenant",
			`Make an account for a tenant, with credentials for its orchestrator and for people. An embedded server knows of it
at once; a nats-server of your own when it has loaded the new resolver.conf: copy that where the server has it, and
` + "`nats-server --signal reload`" + `.`,
			func(name string) string { return name }, nil,
			func(dir, _, name string) string { return auth.Admin(dir, name) },
			func(dir, _, name string) (string, error) { return auth.Admin(dir, name), auth.AddTenant(dir, name) },
			func(dir, file, _, name string) []string {
				return []string{
					"nats-server --signal reload", "on a server of your own, with the new " + auth.Resolver(dir),
					"cortex serve" + tenantFlag(name) + " --nats URL --creds " + shellWord(file), "beside the first, on its server",
				}
			},
		},
	} {
		c.AddCommand(&cobra.Command{
			Use: kind.name + " " + kind.arg, Short: kind.short, Long: kind.long, Args: typed.Exact(kind.arg),
			Example: "  cortex auth add " + kind.name + " " + map[string]string{"agent": "weather", "user": "ada", "tenant": "acme"}[kind.name],
			RunE: func(_ *cobra.Command, args []string) error {
				dir, err := folder()
				if err != nil {
					return err
				}
				tenant, id := e.settings.tenant, kind.id(args[0])
				if kind.check != nil {
					if err := kind.check(id); err != nil {
						return err
					}
				}
				before, missing := os.Stat(kind.file(dir, tenant, id))
				file, err := kind.add(dir, tenant, id)
				if err != nil {
					return fmt.Errorf("%s %s: %w", kind.name, prompt.Clean(args[0], 64), err)
				}
				fmt.Fprintln(e.stdout, file)
				if after, err := os.Stat(file); missing == nil && err == nil && os.SameFile(before, after) {
					e.say("these were there already, and stay as they are")
				} else if missing == nil {
					e.say("those that were there were revoked: these are new")
				}
				e.advise(kind.next(dir, file, e.settings.tenant, args[0])...)
				return nil
			},
		})
	}
	return c
}

// userName returns the name of a person without the prefix that lists show.
func userName(name string) string { return strings.TrimPrefix(name, "user:") }

// isKept reports whether a word is one that ids begin with, or looks like one.
func isKept(word string) bool {
	var set lookalike.Set
	set.Add(transport.SenderPrefixes()...)
	return slices.Contains(transport.SenderPrefixes(), word) || set.Like(word) != ""
}

// checkPersonName returns an error for the name of a person that could be taken for Cortex, for an agent, or for everybody without a name. Credentials
// that were made before stay valid.
func checkPersonName(name string) error {
	if first, _, _ := strings.Cut(name, ":"); isKept(first) || transport.CheckPerson(name) != nil {
		return fmt.Errorf("user %s: the name could be taken for Cortex or an agent: choose another", prompt.Clean(name, 64))
	}
	return nil
}

// checkAgentName returns what [transport.CheckAgent] does, also for what looks like such a name, and says what to do. The other ids that nobody may have
// are refused where credentials are made. Credentials that were made before stay valid.
func checkAgentName(id string) error {
	if first, rest, more := strings.Cut(id, ":"); more && isKept(first) {
		why := fmt.Errorf("agent %s: an agent's own name does not begin with %q, by which ids are told apart", prompt.Clean(id, 64), prompt.Clean(first, 64)+":")
		if first == "agent" && rest != "" {
			return fmt.Errorf("%w: cortex auth add agent %s", why, shellWord(rest))
		}
		return fmt.Errorf("%w: choose another", why)
	}
	return nil
}

func (e *env) newAuthToken(folder func() (string, error)) *cobra.Command {
	return &cobra.Command{
		Use:   "token NAME|agent:ID|FILE",
		Short: "Print the bearer token of a person or an agent, for HTTP",
		Long: `Print the bearer token by which a person shows at the path /mcp of ` + "`cortex serve --http`" + ` and at ` + "`cortex serve --a2a`" + ` who they are, and an
agent at --a2a. NAME is theirs, as ` + "`cortex auth add user`" + ` was given it, or FILE has the credentials. The token is made of these, and valid as
long as they are. Use it over TLS, or on one machine.`,
		Example: "  cortex auth token ada\n  cortex auth token agent:weather\n  cortex auth token ada.creds",
		Args:    typed.Exact("NAME|agent:ID|FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := e.credsOf(args[0], folder)
			if err != nil {
				return err
			}
			who, err := auth.Read(file)
			if err != nil {
				return err
			}
			if !who.Limited() {
				return usagef("%s: these are not the credentials of a person or an agent: `cortex auth add user NAME` makes some", args[0])
			}
			token, err := auth.BearerToken(file)
			if err != nil {
				return err
			}
			fmt.Fprintln(e.stdout, token)
			return nil
		},
	}
}

func (e *env) newAuthRevoke(folder func() (string, error)) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME|agent:ID|FILE",
		Short: "Make the credentials of a person or an agent worthless",
		Long: `Make the credentials of a person or an agent worthless, and with them every copy and the bearer token. A service with --auth ends their
connections within seconds, and need not be started again. New ones can be made for the same name. Credentials are told by their file: where
it is not in the folder any more, give a copy. Those of which nobody has a copy cannot be revoked, and new ones for the name leave them as they are.`,
		Example: "  cortex auth revoke ada\n  cortex auth revoke agent:weather\n  cortex auth revoke copy.creds",
		Args:    typed.Exact("NAME|agent:ID|FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := folder()
			if err != nil {
				return err
			}
			file, err := e.credsOf(args[0], folder)
			if err != nil {
				return fmt.Errorf("%w; where their file is lost, give a copy of it, such as the one that was handed out: `cortex auth revoke FILE`", err)
			}
			who, err := auth.Revoke(dir, file)
			if err != nil {
				return err
			}
			e.tell("the credentials of %s are worthless from now on", who)
			e.advise("nats-server --signal reload", "on a server of your own, with the new "+auth.Resolver(dir))
			return nil
		},
	}
}

// credsOf returns the file of credentials, which is given as it is, or as the name of a person or an agent who has keys in the folder.
func (e *env) credsOf(given string, folder func() (string, error)) (file string, err error) {
	info, err := os.Stat(given)
	empty := err == nil && info.Mode().IsRegular() && info.Size() == 0 // such as one that the shell has just made for what is printed: `cortex auth token ada > ada`
	if !empty && !errors.Is(err, fs.ErrNotExist) {
		return given, nil
	}
	dir, err := folder()
	if err != nil {
		return "", err
	}
	want := &auth.Identity{Role: auth.Person, Tenant: e.settings.tenant, ID: "user:" + userName(given)}
	file = auth.UserFile(dir, e.settings.tenant, userName(given))
	if id, ok := strings.CutPrefix(given, "agent:"); ok {
		want.Role, want.ID = auth.Agent, id
		file = auth.AgentFile(dir, e.settings.tenant, id)
	}
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) && empty {
		return "", fmt.Errorf("%s is an empty file, and nobody of that name has keys in %s: `cortex auth list` has the names, and an agent is agent:ID", prompt.Clean(given, 200), dir)
	} else if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s is neither a file nor somebody who has keys in %s: `cortex auth list` has the names, and an agent is agent:ID", prompt.Clean(given, 200), dir)
	}
	if is, err := auth.Read(file); is != nil && !is.Same(want) && (err == nil || errors.Is(err, auth.ErrExpired)) {
		return "", fmt.Errorf("%s has the credentials of %s, and not of %s: name the file if you mean it", file, is, want)
	}
	return file, nil
}

type credsJSON struct {
	Role   auth.Role `json:"role"`
	Tenant string    `json:"tenant"`
	ID     string    `json:"id"`
	File   string    `json:"file"`
}

func (e *env) newAuthList(folder func() (string, error)) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "list",
		Short:   "List who has credentials",
		Long:    `List for whom there are credentials, and where: of one tenant with --tenant, else of all.`,
		Example: "  cortex auth list\n  cortex auth list --tenant acme --json",
		Args:    typed.Exact(),
		RunE: func(*cobra.Command, []string) error {
			dir, err := folder()
			if err != nil {
				return err
			}
			all, err := auth.List(dir)
			if err != nil {
				return err
			}
			list := []credsJSON{}
			for _, i := range all {
				if tenant := e.settings.tenant; tenant == "" || i.Tenant == tenant {
					list = append(list, credsJSON{i.Role, i.Tenant, i.ID, i.File})
				}
			}
			if asJSON {
				return writeJSON(e, list)
			}
			alike := map[string]*lookalike.Set{} // by tenant
			for _, i := range list {
				if alike[i.Tenant] == nil {
					alike[i.Tenant] = &lookalike.Set{}
					alike[i.Tenant].Add(transport.Cortex)
				}
				alike[i.Tenant].Add(userName(i.ID))
			}
			t := table.New("ROLE", "TENANT", "ID", "FILE")
			for _, i := range list {
				file, err := filepath.Rel(dir, i.File)
				t.Row(string(i.Role), cmp.Or(i.Tenant, "-"), marked(alike[i.Tenant].Mark(userName(i.ID)), i.ID), map[bool]string{true: file, false: i.File}[err == nil])
			}
			return e.showWhole(t)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}

// advise prints what may be done next: commands in a column, each with its purpose, or below its purpose on a narrow terminal. What is below
// "Next:" can be copied as it is: each line of a purpose is a comment, and a long command has backslashes.
func (e *env) advise(pairs ...string) {
	_, _ = io.WriteString(e.stderr, "\nNext:\n"+adviceText(screen.Width(e.stderr), pairs))
}

func adviceText(width int, pairs []string) string {
	t := table.Table{Columns: make([]table.Column, 2)}
	fits := true
	for i := 0; i < len(pairs); i += 2 {
		t.Row("    "+pairs[i], pairs[i+1])
		fits = fits && (width == 0 || table.Width(pairs[i])+table.Width(pairs[i+1])+6 <= width)
	}
	if fits {
		return t.Render(cmp.Or(width, 1000), nil)
	}
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		for line := range strings.Lines(repl.WrapText(pairs[i+1]+"\n", max(width-len("    # "), 1))) {
			b.WriteString("    # " + line)
		}
		b.WriteString(commandLines(pairs[i], "    ", width) + "\n")
	}
	return b.String()
}

func tenantFlag(tenant string) string {
	if tenant == "" {
		return ""
	}
	return " --tenant " + shellWord(tenant)
}

// shellWord quotes s for a shell command that users copy.
func shellWord(s string) string { return prompt.ShellWord(s) }
