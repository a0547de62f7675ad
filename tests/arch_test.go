package tests

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/cortex-orchestrator/cortex"

// allowed lists, for each package, the packages of this module that it may import. The package tree and these imports are the architecture: adding a
// line here is a decision.
var allowed = map[string][]string{
	"":                               {"internal/program"},
	"tests":                          {},
	"internal/program":               {"app", "bridge/agenthub", "bridge/rtfs", "mirror", "bridge/rockbot"},
	"app":                            {"app/role", "internal/home/nats", "internal/cli", "llm/provider", "transport"},
	"app/role":                       {"agents", "client", "cortex/storage", "internal/httpserver", "internal/openfiles", "transport"},
	"llm/provider":                   {"llm", "llm/middleware"},
	"internal/cli":                   {"evaluate", "internal/process", "app/role", "agentcard", "transport", "transport/nats/storecheck", "prompt", "llm", "llm/fake", "llm/eval", "llm/middleware", "llm/provider", "cortex", "cortex/policy", "cortex/registry", "cortex/router", "cortex/router/eval", "cortex/jetstore", "agents", "agents/a2a", "agents/mcp", "agents/persona", "bridge/a2a", "bridge/a2a/grpc", "bridge/mcp", "bridge/kit", "client", "repl", "transport/nats/auth", "internal/home", "internal/bench", "internal/directory", "internal/metrics", "internal/traces", "internal/document", "internal/erase", "internal/flight", "internal/garbage", "internal/httpclient", "internal/httpserver", "internal/logs", "internal/policyfile", "internal/roles", "internal/lookalike", "internal/openfiles", "internal/publicnet", "internal/recent", "internal/size", "internal/table", "internal/torture", "internal/webhook", "cortex/conversation", "cortex/budget", "cortex/decide/catalog", "cortex/storage", "internal/shorten", "internal/view", "sdk", "mirror", "console", "internal/rest", "internal/llms", "internal/usage", "internal/datadir", "internal/retain", "internal/screen", "internal/cli/typed", "internal/cli/measure", "console/oidc", "internal/certificate", "internal/disk"},
	"internal/home":                  {"transport", "transport/nats/auth", "transport/nats/storecheck", "cortex/jetstore", "cortex/storage", "internal/erase"},
	"internal/home/nats":             {"internal/home", "transport", "transport/nats", "transport/nats/storecheck", "cortex/jetstore", "cortex/storage", "internal/erase"},
	"internal/bench":                 {"agentcard", "bridge/a2a", "bridge/a2a/grpc", "client", "internal/httpserver", "transport", "transport/nats", "prompt", "llm", "llm/fake", "cortex", "cortex/registry", "cortex/jetstore", "agents", "internal/directory", "internal/erase", "internal/garbage", "cortex/conversation", "cortex/decide/catalog", "cortex/storage", "internal/rest"},
	"internal/directory":             {"cortex/registry", "cortex/router", "prompt", "cortex/storage"},
	"internal/document":              {},
	"internal/document/documenttest": {},
	"internal/erase":                 {"transport", "cortex/conversation", "cortex/learn", "cortex/storage"},
	"internal/garbage":               {},
	"internal/httpclient":            {},
	"internal/certificate":           {"internal/document"},
	"internal/httpserver":            {"internal/openfiles"},
	"internal/flight":                {"cortex/conversation"},
	"internal/metrics":               {"cortex", "cortex/conversation", "llm", "llm/middleware", "transport"},
	"internal/traces":                {"agents", "cortex/conversation", "internal/shorten", "prompt", "transport"},
	"internal/rest":                  {},
	"internal/usage":                 {},
	"internal/logs":                  {"repl"},
	"internal/policyfile":            {"cortex/policy", "internal/document", "llm", "internal/rest"},
	"internal/roles":                 {"app/role", "internal/rest", "transport"},
	"internal/disk":                  {},
	"internal/llms":                  {"internal/document", "internal/keycommand", "internal/openfiles", "internal/usage", "llm", "llm/anthropic", "llm/gemini", "llm/middleware", "llm/openai", "llm/vertex", "llm/provider"},
	"internal/datadir":               {"internal/disk", "internal/document", "internal/home", "internal/llms", "internal/openfiles", "internal/rest", "cortex/budget", "agents", "agents/a2a", "agents/mcp", "agents/persona"},
	"internal/retain":                {"internal/datadir", "internal/erase", "internal/rest", "cortex/conversation", "cortex/storage", "transport"},
	"internal/screen":                {"prompt", "repl"},
	"internal/cli/typed":             {"internal/usage", "prompt"},
	"internal/cli/measure":           {"cortex/conversation", "internal/bench", "internal/cli/typed", "internal/screen", "internal/table", "internal/usage", "internal/view"},
	"internal/publicnet":             {},
	"internal/view":                  {"agentcard", "client", "cortex/conversation", "cortex/decide/catalog", "cortex/registry", "cortex/storage", "evaluate", "internal/lookalike", "internal/shorten", "internal/table", "llm", "prompt", "transport"},
	"internal/webhook":               {"internal/publicnet"},
	"internal/locks":                 {},
	"internal/lookalike":             {},
	"internal/openfiles":             {},
	"internal/pin":                   {"internal/document", "internal/taskfile"},
	"internal/process":               {"internal/shorten"},
	"internal/keycommand":            {"internal/process"},
	"internal/puback":                {},
	"internal/recent":                {},
	"internal/weighed":               {},
	"internal/together":              {},
	"internal/nesting":               {},
	"internal/pace":                  {},
	"internal/protoweight":           {},
	"internal/lapse":                 {},
	"internal/lines":                 {"internal/shorten"},
	"internal/shorten":               {},
	"internal/size":                  {},
	"internal/stars":                 {},
	"internal/table":                 {"prompt"},
	"internal/taskfile":              {"internal/document"},
	"internal/token":                 {},
	"internal/torture":               {"transport", "transport/nats", "cortex/jetstore", "agents", "cortex/conversation", "cortex/storage", "internal/process", "internal/rest"},
	"agentcard":                      {"internal/document", "internal/nesting", "internal/recent", "internal/shorten", "internal/weighed"},
	"transport":                      {"internal/nesting", "internal/size", "internal/shorten"},
	"transport/memory":               {"transport", "internal/shorten"},
	"transport/nats":                 {"transport", "transport/nats/auth", "transport/nats/storecheck", "internal/certificate", "internal/disk", "internal/document", "internal/nesting", "internal/openfiles", "internal/puback", "internal/rest"},
	"transport/nats/auth":            {"transport", "internal/document", "internal/taskfile"},
	"transport/nats/storecheck":      {},
	"transport/nats/storecheck/storechecktest": {},
	"transport/transporttest":                  {"transport"},
	"prompt":                                   {"agentcard", "internal/document", "internal/lines", "internal/lookalike", "internal/shorten"},
	"llm":                                      {"prompt", "agentcard", "internal/nesting", "internal/size", "internal/shorten"},
	"llm/fake":                                 {"llm", "prompt", "agentcard", "agents/calc", "agents/clock", "cortex/router", "internal/recent", "internal/token"},
	"llm/llmtest":                              {"llm", "prompt", "internal/shorten"},
	"llm/middleware":                           {"llm", "internal/rest"},
	"llm/openai":                               {"llm", "llm/internal/long", "llm/internal/endpoint"},
	"llm/openai/openaitest":                    {"llm", "llm/llmtest"},
	"llm/internal/google":                      {"llm", "llm/internal/sse"},
	"llm/vertex":                               {"llm", "llm/internal/google", "llm/internal/long", "internal/httpclient", "internal/recent"},
	"llm/vertex/vertextest":                    {"llm", "llm/llmtest"},
	"llm/gemini":                               {"llm", "llm/internal/endpoint", "llm/internal/google", "llm/internal/long", "llm/internal/sse", "internal/httpclient"},
	"llm/eval":                                 {"agentcard", "llm", "prompt"},
	"llm/internal/sse":                         {"llm", "llm/internal/long"},
	"llm/internal/long":                        {"internal/nesting", "internal/pace"},
	"llm/internal/endpoint":                    {"llm", "internal/httpclient"},
	"llm/anthropic":                            {"llm", "llm/internal/endpoint", "llm/internal/long", "llm/internal/sse"},
	"llm/anthropic/anthropictest":              {"llm", "llm/llmtest"},
	"llm/gemini/geminitest":                    {"llm", "llm/llmtest"},
	"cortex":                                   {"transport", "prompt", "llm", "cortex/policy", "cortex/router", "cortex/conversation", "cortex/cache", "cortex/budget", "cortex/decide", "cortex/decide/catalog", "cortex/learn", "cortex/storage", "internal/recent", "internal/rest", "internal/together"},
	"cortex/cache":                             {"llm", "cortex/conversation", "internal/recent"},
	"cortex/budget":                            {"llm", "cortex/storage"},
	"cortex/decide":                            {"evaluate", "transport", "prompt", "llm", "agentcard", "cortex/policy", "cortex/router", "cortex/conversation", "cortex/budget", "cortex/decide/catalog", "cortex/learn", "internal/locks", "internal/lookalike", "internal/recent", "internal/rest", "internal/shorten", "cortex/storage"},
	"cortex/decide/catalog":                    {"prompt", "llm", "agentcard", "cortex/router", "cortex/conversation", "internal/recent"},
	"cortex/learn":                             {"transport", "prompt", "llm", "cortex/router", "cortex/conversation", "cortex/storage"},
	"cortex/storage":                           {"llm", "transport", "cortex/conversation", "internal/locks"},
	"cortex/conversation":                      {"evaluate", "transport", "prompt", "llm", "internal/nesting", "internal/shorten"},
	"cortex/policy":                            {"evaluate", "internal/document"},
	"cortex/registry":                          {"transport", "prompt", "agentcard", "internal/document", "internal/shorten", "internal/rest"},
	"cortex/router":                            {"internal/token"},
	"cortex/router/eval":                       {"cortex/router", "internal/document"},
	"cortex/memstore":                          {"cortex/storage", "transport", "llm", "cortex/conversation"},
	"cortex/jetstore":                          {"cortex/storage", "transport", "llm", "cortex/conversation", "internal/puback", "internal/rest"},
	"cortex/storetest":                         {"evaluate", "cortex/storage", "transport", "llm", "cortex/conversation"},
	"agents":                                   {"transport", "agentcard", "agents/calc", "agents/clock", "agents/jsonl", "internal/document", "internal/nesting", "internal/process", "internal/recent", "internal/shorten", "internal/taskfile", "internal/rest"},
	"agents/agentstest":                        {"agents", "transport", "transport/memory"},
	"agents/calc":                              {},
	"agents/jsonl":                             {"internal/nesting", "internal/shorten"},
	"agents/a2a":                               {"agents", "agents/internal/records", "agents/internal/result", "agentcard", "transport", "internal/document", "internal/httpclient", "internal/httpserver", "internal/nesting", "internal/pace", "internal/pin", "internal/protoweight", "internal/publicnet", "internal/shorten", "internal/taskfile", "prompt", "internal/rest"},
	"agents/internal/records":                  {"agents", "internal/taskfile", "transport"},
	"agents/internal/result":                   {"agents", "transport", "internal/nesting", "internal/shorten"},
	"agents/mcp":                               {"agents", "agents/internal/records", "agents/internal/result", "agentcard", "transport", "internal/document", "internal/httpclient", "internal/httpserver", "internal/nesting", "internal/pin", "internal/process", "internal/publicnet", "internal/shorten", "internal/taskfile", "internal/rest"},
	"agents/clock":                             {},
	"evaluate":                                 {"internal/shorten"},
	"agents/persona":                           {"agents", "agents/internal/records", "evaluate", "agents/mcp", "agentcard", "llm", "prompt", "transport", "internal/document", "internal/lines", "internal/shorten", "internal/taskfile", "internal/weighed"},
	"console/oidc":                             {"console", "internal/httpclient", "internal/publicnet", "prompt", "transport", "internal/nesting"},
	"console":                                  {"agentcard", "client", "cortex/conversation", "cortex/registry", "cortex/router", "cortex/storage", "evaluate", "internal/lapse", "internal/recent", "internal/shorten", "internal/size", "internal/stars", "internal/together", "internal/view", "llm", "prompt", "transport", "internal/httpserver"},
	"client":                                   {"internal/document", "internal/recent", "internal/shorten", "internal/size", "internal/together", "transport", "cortex/conversation", "cortex/storage"},
	"bridge/mcp":                               {"agentcard", "client", "prompt", "transport", "cortex/conversation", "cortex/storage", "internal/lapse", "internal/httpserver", "internal/nesting", "internal/shorten", "internal/rest", "bridge/kit", "internal/recent"},
	"bridge/rtfs":                              {"agentcard", "agents", "app/role", "bridge/kit", "client", "cortex/conversation", "cortex/storage", "internal/httpclient", "internal/nesting", "internal/publicnet", "internal/shorten", "internal/webhook", "transport", "bridge/taken", "internal/httpserver", "internal/openfiles", "internal/rest"},
	"bridge/kit":                               {"internal/nesting", "internal/publicnet", "transport", "internal/rest", "internal/shorten"},
	"bridge/rockbot":                           {"agentcard", "agents", "app/role", "bridge/kit", "client", "cortex/conversation", "cortex/storage", "internal/document", "internal/locks", "internal/nesting", "internal/publicnet", "internal/shorten", "transport", "internal/rest"},
	"bridge/rockbot/rockbottest":               {"internal/process"},
	"bridge/a2a":                               {"agentcard", "client", "prompt", "transport", "cortex/conversation", "cortex/storage", "internal/lapse", "internal/nesting", "internal/recent", "internal/shorten", "internal/together", "internal/webhook", "internal/rest", "bridge/kit", "internal/httpserver"},
	"bridge/a2a/grpc":                          {"bridge/a2a", "internal/httpserver", "internal/lapse", "internal/protoweight", "bridge/kit"},
	"bridge/agenthub":                          {"agentcard", "agents", "app/role", "bridge/agenthub/hubpb", "bridge/kit", "client", "cortex/storage", "internal/httpserver", "internal/locks", "internal/openfiles", "internal/protoweight", "internal/recent", "internal/shorten", "transport", "internal/rest"},
	"bridge/agenthub/hubpb":                    {},
	"bridge/agenthub/hubtest":                  {"bridge/agenthub/hubpb"},
	"mirror":                                   {"app/role", "cortex/conversation", "cortex/registry", "cortex/storage", "internal/recent", "internal/shorten", "llm", "transport", "internal/rest"},
	"mirror/mirrortest":                        {},
	"app/role/roletest":                        {"agents", "app/role", "client", "cortex", "cortex/memstore", "cortex/registry", "internal/directory", "llm", "transport", "transport/memory"},
	"client/clienttest":                        {"client", "transport", "transport/memory"},
	"sdk":                                      {},
	"repl":                                     {"client", "transport", "internal/lookalike", "internal/shorten", "internal/stars", "internal/table", "internal/taskfile"},
}

// vendors lists the modules that only one package may import outside tests.
var vendors = map[string][]string{
	"github.com/nats-io/nats-server":    {"transport/nats", "transport/nats/storecheck"},
	"github.com/nats-io/nats.go":        {"transport/nats", "cortex/jetstore", "internal/puback", "internal/bench"},
	"github.com/minio/highwayhash":      {"transport/nats/storecheck"},
	"github.com/nats-io/jwt":            {"transport/nats/auth"},
	"github.com/nats-io/nkeys":          {"transport/nats/auth"},
	"github.com/jackc/pgx":              {"mirror", "mirror/mirrortest"},
	"github.com/chzyer/readline":        {"repl"},
	"github.com/rabbitmq/amqp091-go":    {"bridge/rockbot", "bridge/rockbot/rockbottest"},
	"github.com/spf13/cobra":            {"internal/cli", "internal/cli/measure", "internal/cli/typed"},
	"github.com/rivo/uniseg":            {"repl", "internal/table"},
	"github.com/yuin/goldmark":          {"console", "internal/stars", "repl"},
	"github.com/coreos/go-oidc":         {"console/oidc"},
	"github.com/expr-lang/expr":         {"agents/calc"},
	"github.com/google/jsonschema-go":   {"agents"},
	"github.com/modelcontextprotocol":   {"agents/mcp", "bridge/mcp"},
	"github.com/sashabaranov/go-openai": {"llm/openai"},
	"cloud.google.com/go/vertexai":      {"llm/vertex"},
	"cloud.google.com/go/aiplatform":    {"llm/vertex", "llm/vertex/vertextest"},
	"google.golang.org/genai":           {"llm/gemini"},
	"github.com/anthropics":             {"llm/anthropic"},
	"sigs.k8s.io/yaml":                  {"internal/document"},
	"go.yaml.in/yaml":                   {"internal/document"},
	"github.com/prometheus":             {"internal/metrics"},
	"go.opentelemetry.io":               {"internal/traces"},
}

func TestImportsPointOneWay(t *testing.T) {
	for _, p := range listPackages(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		may, known := allowed[name]
		if !known {
			t.Errorf("package %q is not in the architecture: add it here and to DESIGN.md", name)
			continue
		}
		for _, imp := range p.Imports {
			if inside, ok := strings.CutPrefix(imp, module+"/"); ok && !slices.Contains(may, inside) {
				t.Errorf("%s imports %s; it may import %v", name, inside, may)
			}
			for vendor, users := range vendors {
				if strings.HasPrefix(imp, vendor) && !slices.Contains(users, name) {
					t.Errorf("%s imports %s; only %v may", name, imp, users)
				}
			}
		}
	}
}

// impure lists what cortex/conversation must not use: the meaning of a log depends on the log only.
var impure = struct{ imports, calls []string }{
	[]string{"context", "os", "net", "net/http", "io/fs", "math/rand", "math/rand/v2", "crypto/rand", "log", "log/slog"},
	[]string{"time.Now", "time.Since", "time.Until", "time.After", "time.AfterFunc", "time.Sleep", "time.NewTimer", "time.NewTicker", "time.Tick", "uuid.New", "uuid.NewString", "uuid.NewRandom", "uuid.NewUUID", "uuid.NewV6", "uuid.NewV7"},
}

func TestConversationIsPure(t *testing.T) {
	files, err := filepath.Glob("cortex/conversation/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("files of cortex/conversation: %v, %v", files, err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, imp := range f.Imports {
			if name := strings.Trim(imp.Path.Value, `"`); slices.Contains(impure.imports, name) {
				t.Errorf("%s imports %s", path, name)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok && slices.Contains(impure.calls, x.Name+"."+sel.Sel.Name) {
					t.Errorf("%s uses %s.%s", path, x.Name, sel.Sel.Name)
				}
			}
			return true
		})
	}
}

// guarded lists what only one package may do, so that its bounds hold: other packages call that one.
var guarded = map[string]string{
	"http.Server{": "internal/httpserver", "http.Serve(": "internal/httpserver", ".ListenAndServe": "internal/httpserver",
	"os.ReadFile(":     "internal/document",
	"Kind == llm.Kind": "llm", "Kind != llm.Kind": "llm", "case llm.Kind": "llm", // the meaning of a kind is a row of llm/kind.go
}

// ownFiles are packages that read their own files, or the system's.
var ownFiles = []string{"internal/torture", "internal/bench", "internal/process", "llm/llmtest"}

func TestGuardsAreUsed(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil || strings.HasPrefix(string(b), "//go:build ignore\n") {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		for text, by := range guarded {
			if strings.Contains(string(b), text) && dir != by && !slices.Contains(ownFiles, dir) && !strings.Contains(dir, "test") {
				t.Errorf("%s has %s: use %s", path, text, by)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

type listed struct {
	ImportPath string
	Imports    []string
}

func listPackages(t *testing.T) []listed {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var packages []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		packages = append(packages, p)
	}
}
