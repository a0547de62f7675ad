package cli

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cortex-orchestrator/cortex/app/role"
)

// settingFlags are the flags that may come from the environment and from a file, in all commands; but see exceptions.
var settingFlags = strings.Fields(`
	data nats transport store creds tls-ca tls-cert tls-key tenant log-format log-level color theme keys console
	llm model prompts well-known policy agents strict-abilities listen sync replicas auth retain shortlist learning task-timeout llm-timeout max-file
	http pprof flight-recorder a2a a2a-grpc a2a-03 a2a-push-host http-cert http-key card spec concurrency timeout own-role
	oidc-issuer oidc-client oidc-secret-file oidc-user oidc-allow oidc-operator oidc-scope console-url
	postgres postgres-content postgres-retain`)

// actionFlags belong to one call of a command.
var actionFlags = strings.Fields(`
	name url wait agent skill input file output config help conversation continue json protocol verbose once dir all yes force limit seen revoke repair new online
	ability tag text version state owner lang
	queries oos learn multi k grow cases language about parallel wrong
	turns case tcp llm-delay delegations time-limit entries conversations for
	kills topology seed keep clients
	client-id callback-port
	prefix credentials a2a-directory allow-host refresh
	root skills model-alias allow-servers
	operator no-descriptions`)

// exceptions are action flags with the name of a setting.
var exceptions = map[string]bool{
	"cortex eval routing --agents": true, "cortex eval decisions --agents": true, "cortex bench restart --agents": true, "cortex bench discovery --agents": true, "cortex torture --agents": true,
	"cortex agent echo --card": true, "cortex agent clock --card": true, "cortex agent calc --card": true,
	"cortex agent echo --spec": true, "cortex agent clock --spec": true, "cortex agent calc --spec": true,
}

// chooser is a program with all flags: Cortex itself has no transports, stores or roles of its own.
var chooser = &Program{Transports: map[string]Transport{"own": {}}, Stores: map[string]Store{"own": {}}, Roles: []role.Role{{Name: "own", Open: func(f *flag.FlagSet) role.Run {
	f.Bool("own-role", false, "")
	return nil
}}}}

// TestFlagsAreClassified checks that each flag of all commands is listed above, as a setting of the node, or as an action, which can only be given on
// the command line.
func TestFlagsAreClassified(t *testing.T) {
	class := map[string]bool{}
	for _, name := range settingFlags {
		class[name] = true
	}
	for _, name := range actionFlags {
		if _, both := class[name]; both {
			t.Fatalf("--%s is in both lists", name)
		}
		class[name] = false
	}
	eachFlag((&env{settings: settings{program: chooser, node: new(nodeSettings)}}).newRoot(), func(c *cobra.Command, f *pflag.Flag) {
		of := c.CommandPath() + " --" + f.Name
		want, known := class[f.Name]
		if !known {
			t.Errorf("%s is in neither list: is it a setting of the node, or what one command is to do?", of)
		}
		if want = want && !exceptions[of]; hasSettingMark(f) != want {
			t.Errorf("%s: it is a setting: %v, want %v", of, hasSettingMark(f), want)
		}
	})
}

// TestSettingsComeFirst gives each command its flags through the environment: settings are read before the arguments are checked, other flags are not
// read.
func TestSettingsComeFirst(t *testing.T) {
	card := filepath.Join(t.TempDir(), "card.yaml")
	if err := os.WriteFile(card, []byte("name: mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		env, file string
		args      []string
		want      string // on standard error
	}{
		"a card":                    {env: "CORTEX_CARD=" + card, args: []string{"agent", "exec"}, want: "which program? cortex agent exec -- PROGRAM [ARGS...]"},
		"a card in a file":          {file: "card: " + card, args: []string{"agent", "exec"}, want: "which program? cortex agent exec -- PROGRAM [ARGS...]"},
		"a card, and --spec":        {env: "CORTEX_CARD=" + card, args: []string{"agent", "exec", "--spec", "none.yaml"}, want: "which program? cortex agent exec --spec none.yaml -- PROGRAM [ARGS...]"},
		"all dead letters":          {env: "CORTEX_ALL=true", args: []string{"dead", "remove"}, want: "which ones? cortex dead remove ID..., or --all"},
		"no agents to measure":      {env: "CORTEX_AGENTS=echo", args: []string{"eval", "routing", "--queries", "none"}, want: "--agents is missing: name a file of agents; `cortex eval routing --help` shows its form"},
		"an action's key in a file": {file: "text: weather", args: []string{"agents"}, want: "config.yaml: text: this is no setting: it says what one command is to do, and is only given to that one as a flag (line 1)"},
		"force in a file":           {file: "listen: 127.0.0.1:0\nforce: true", args: []string{"sessions", "delete", "demo"}, want: "config.yaml: force: this is no setting: it says what one command is to do, and is only given to that one as a flag (line 2)"},
		"no keys":                   {file: "listen: 127.0.0.1:0\nauth: []", args: []string{"version"}, want: "config.yaml: auth: want one value, not a list (line 2)"},
		"no rules":                  {file: "policy: [a.yaml]", args: []string{"version"}, want: "config.yaml: policy: want one value, not a list (line 1)"},
		"an empty list":             {file: "agents: []", args: []string{"version"}, want: "config.yaml: agents: it is empty: give a value, or leave it out (line 1)"},
		"a list of a list":          {file: "agents: [echo, [clock]]", args: []string{"version"}, want: "config.yaml: agents: want one value, not a list (line 1)"},
		"an empty flag":             {args: []string{"version", "--nats", ""}, want: "--nats: it is empty: give a value, or leave it out"},
		"an empty name":             {args: []string{"version", "--tenant", ""}, want: "--tenant: it is empty: give a value, or leave it out"},
		"an empty flag of a list":   {args: []string{"chat", "--agents", ""}, want: "--agents: it is empty: give a value, or leave it out"},
		"a wrong value":             {env: "CORTEX_TIMEOUT=soon", args: []string{"agent", "exec"}, want: `CORTEX_TIMEOUT "soon": it is a duration, such as 30s or 5m`},
		"a wrong value in a file":   {file: "agents: [echo]\ntask_timeout: soon", args: []string{"chat"}, want: `config.yaml: task_timeout "soon": it is a duration, such as 30s or 5m (line 2)`},
		"a wrong flag":              {args: []string{"chat", "--task-timeout", "soon"}, want: "--task-timeout \"soon\": it is a duration, such as 30s or 5m: `cortex chat --help` lists the flags"},
		"too short a list":          {env: "CORTEX_SHORTLIST=0", args: []string{"chat"}, want: "CORTEX_SHORTLIST 0: it is from 1 to 40"},
		"too short, in a file":      {file: "shortlist: 0", args: []string{"chat"}, want: "config.yaml: shortlist 0: it is from 1 to 40 (line 1)"},
		"a wrong level":             {env: "CORTEX_LOG_LEVEL=loud", args: []string{"version"}, want: `CORTEX_LOG_LEVEL "loud": it is debug, info, warn or error`},
		"a wrong server":            {env: "CORTEX_NATS=http://h", args: []string{"version"}, want: "CORTEX_NATS: want the URL of a server such as nats://host:4222, or several with commas between them"},
		"a wrong tenant, in a file": {file: "tenant: a b", args: []string{"version"}, want: `config.yaml: tenant: "a b" has a space or a control character (line 1)`},
		"a program's flag":          {args: []string{"agent", "exec", "--card", "f", "wc", "-w"}, want: "-w needs `--` before the program, if it is the program's flag: cortex agent exec --card FILE -- wc -w"},
		"a flag of none":            {args: []string{"agent", "exec", "-w"}, want: "unknown shorthand flag: 'w' in -w: `cortex agent exec --help` lists the flags"},
		"no such agent":             {env: "CORTEX_AGENTS=nobody", args: []string{"chat"}, want: `CORTEX_AGENTS: there is no built-in agent "nobody": it is one of calc, clock, echo`},
		"no port":                   {args: []string{"serve", "--listen", "localhost"}, want: `--listen "localhost": want host:port, such as 127.0.0.1:4222`},
		"no port for health":        {env: "CORTEX_HTTP=8420", args: []string{"serve"}, want: `CORTEX_HTTP "8420": want host:port, such as 127.0.0.1:8420, or none`},
		"now and then":              {file: "sync: often", args: []string{"serve", "--http", "none"}, want: `config.yaml: sync "often": it is a duration, such as 30s or 5m, or always (line 1)`},
		"no folder of keys":         {env: "CORTEX_AUTH=/none", args: []string{"chat"}, want: "CORTEX_AUTH: there are no keys in /none: `cortex auth init` makes some"},
		"an empty variable":         {env: "CORTEX_AUTH=", args: []string{"serve"}, want: "CORTEX_AUTH: it is empty: give a value, or leave it out"},
		"an empty policy":           {env: "CORTEX_POLICY=", args: []string{"chat"}, want: "CORTEX_POLICY: it is empty: give a value, or leave it out"},
		"an empty time":             {env: "CORTEX_RETAIN=", args: []string{"serve"}, want: "CORTEX_RETAIN: it is empty: give a value, or leave it out"},
		"an empty switch":           {env: "CORTEX_LEARNING=", args: []string{"serve"}, want: "CORTEX_LEARNING: it is empty: give a value, or leave it out"},
		"an empty server":           {env: "CORTEX_NATS_URL= CORTEX_NATS=nats://h", args: []string{"version"}, want: "CORTEX_NATS_URL: it is empty: give a value, or leave it out"},
		"an empty variable, a key":  {env: "CORTEX_AUTH=", file: "auth: keys", args: []string{"serve"}, want: "CORTEX_AUTH: it is empty: give a value, or leave it out"},
		"no file at all":            {env: "CORTEX_CONFIG=", args: []string{"version"}, want: "CORTEX_CONFIG: it is empty: give a value, or leave it out"},
		"no file, and another":      {env: "CORTEX_CONFIG=other.yaml", args: []string{"version", "--config", ""}, want: "--config: it is empty: give a value, or leave it out"},
		"no such file":              {env: "CORTEX_CONFIG=nope.yaml", args: []string{"version"}, want: "CORTEX_CONFIG: nope.yaml: no such file or directory"},
		"nothing in a file":         {file: " ", args: []string{"version"}, want: "config.yaml: it says nothing: give keys and values, such as `llm: openai`, or leave the file out"},
		"comments only":             {file: "# auth: keys", args: []string{"version"}, want: "config.yaml: it says nothing: give keys and values, such as `llm: openai`, or leave the file out"},
		"null":                      {file: "# nothing\nnull", args: []string{"version"}, want: "config.yaml: it says nothing: give keys and values, such as `llm: openai`, or leave the file out (line 2)"},
		"no keys and values":        {file: "{}", args: []string{"version"}, want: "config.yaml: it says nothing: give keys and values, such as `llm: openai`, or leave the file out"},
		"no models":                 {file: "llm: fake\nllms:", args: []string{"version"}, want: "config.yaml: llms: want names, each with its settings (line 2)"},
		"models, of none":           {file: "llms: {}", args: []string{"version"}, want: "config.yaml: llms: want names, each with its settings (line 1)"},
		"nothing of a model":        {file: "llms:\n  openai:", args: []string{"version"}, want: "config.yaml: llms.openai: want keys and values, such as `provider: openai` (line 2)"},
		"a list":                    {file: "# all\n- llm: fake", args: []string{"version"}, want: "config.yaml: want keys and values, such as `llm: openai` (line 2)"},
		"a text":                    {file: "fake", args: []string{"version"}, want: "config.yaml: want keys and values, such as `llm: openai` (line 1)"},
		"a control character":       {file: "llm: fake\ntenant: a\x00b", args: []string{"version"}, want: "config.yaml: line 2: control characters are not allowed"},
		"no key of a model":         {env: "CORTEX_LLM=openai", args: []string{"serve", "--http", "none"}, want: "CORTEX_LLM openai: OPENAI_API_KEY is not set: `export OPENAI_API_KEY=…` with your key, or set api_key_file for openai in the config file"},
		"no model":                  {file: "llm: ollama", args: []string{"serve", "--http", "none"}, want: "config.yaml: llm ollama: which model? name it with --model, or `model` in the config file: `cortex llm list ollama` lists those that are there (line 1)"},
		"another model":             {env: "CORTEX_MODEL=qwen3", args: []string{"llm", "check", "ollama"}, want: "ollama: which model? name it with --model, or `model` in the config file: `cortex llm list ollama` lists those that are there; CORTEX_MODEL is left aside, since it is meant for the llm that is given beside it"},
		"another model, chat":       {env: "CORTEX_MODEL=qwen3", args: []string{"chat", "--llm", "ollama"}, want: "--llm ollama: which model? name it with --model, or `model` in the config file: `cortex llm list ollama` lists those that are there; CORTEX_MODEL is left aside, since it is meant for the llm that is given beside it"},
		"another model in a file":   {file: "model: qwen3", args: []string{"chat", "--llm", "ollama"}, want: "--llm ollama: which model? name it with --model, or `model` in the config file: `cortex llm list ollama` lists those that are there; model in config.yaml is left aside, since it is meant for the llm that is given beside it"},
		"no credentials":            {env: "CORTEX_CREDS=/none", args: []string{"agents", "--nats", "nats://127.0.0.1:1"}, want: "CORTEX_CREDS: /none: no such file or directory"},
		"no credentials, a flag":    {args: []string{"agent", "echo", "--creds", "/none", "--nats", "nats://127.0.0.1:1"}, want: "--creds: /none: no such file or directory"},
		"no certificates":           {file: "tls_ca: /none", args: []string{"serve", "--http", "none", "--nats", "nats://127.0.0.1:1"}, want: "config.yaml: tls_ca: /none: no such file or directory (line 1)"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			t.Setenv("OPENAI_API_KEY", "")
			for _, variable := range strings.Split(test.env, " ") {
				if name, value, ok := strings.Cut(variable, "="); ok {
					t.Setenv(name, value)
				}
			}
			args := append([]string{"--data", dir}, test.args...)
			if test.file != "" {
				if err := os.WriteFile("config.yaml", []byte(test.file+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				args = append(args, "--config", "config.yaml")
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // for commands that keep running
			defer cancel()
			var stdout, stderr bytes.Buffer
			code := Run(ctx, args, strings.NewReader(""), &stdout, &stderr)
			if got := strings.TrimSpace(stderr.String()); code != exitUsage || got != "cortex: "+test.want {
				t.Errorf("exit status %d, want 2; it says\n%s\nwant\ncortex: %s", code, got, test.want)
			}
		})
	}
}

// TestSettingsHelp checks that the topic lists the settings and nothing else.
func TestSettingsHelp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := chooser.Run(t.Context(), []string{"help", "settings"}, strings.NewReader(""), &stdout, &stderr); code != exitOK {
		t.Fatalf("exit status %d: %s", code, &stderr)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(stdout.String()) {
		if fields := strings.Fields(line); len(fields) == 3 && strings.HasPrefix(line, "    --") {
			listed[strings.TrimPrefix(fields[0], "--")] = fields[1] == envName(fields[0][2:]) && fields[2] == key(fields[0][2:])
		}
	}
	for _, name := range settingFlags {
		if !listed[name] {
			t.Errorf("--%s is not listed as it is:\n%s", name, &stdout)
		}
	}
	if len(listed) != len(settingFlags) {
		t.Errorf("%d settings are listed, want %d", len(listed), len(settingFlags))
	}
}

// TestFlagsSayWhatTheyTake checks that each flag with a value names it in capital letters, and that a short flag has the same meaning in all
// commands.
func TestFlagsSayWhatTheyTake(t *testing.T) {
	short := map[string]string{}
	eachFlag((&env{settings: settings{program: self, node: new(nodeSettings)}}).newRoot(), func(c *cobra.Command, f *pflag.Flag) {
		if name, usage := pflag.UnquoteUsage(f); f.Value.Type() != "bool" && (name == "" || name != strings.ToUpper(name)) {
			t.Errorf("%s --%s takes %q: %s", c.CommandPath(), f.Name, name, usage)
		}
		if f.Shorthand == "" {
			return
		}
		if other := cmp.Or(short[f.Shorthand], f.Name); other != f.Name {
			t.Errorf("-%s is --%s and, of %s, --%s", f.Shorthand, other, c.CommandPath(), f.Name)
		}
		short[f.Shorthand] = f.Name
	})
}
