package fake_test

import (
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// tools is an agent with a skill for each tool: its name, its description, and its input as "path:string ids:array".
func tools(id, description string, once bool, of ...[3]string) prompt.Agent {
	spec := &agentcard.Spec{Abilities: map[string]agentcard.Ability{}}
	var skills []a2a.AgentSkill
	for _, tool := range of {
		skills = append(skills, a2a.AgentSkill{ID: tool[0], Name: tool[0], Description: tool[1]})
		var properties, required []string
		for field := range strings.FieldsSeq(tool[2]) {
			name, kind, _ := strings.Cut(field, ":")
			properties, required = append(properties, `"`+name+`":{"type":"`+kind+`"}`), append(required, `"`+name+`"`)
		}
		spec.Abilities[tool[0]] = agentcard.Ability{
			InputSchema: []byte(`{"type":"object","properties":{` + strings.Join(properties, ",") + `},"required":[` + strings.Join(required, ",") + `]}`),
			Once:        once,
		}
	}
	a := agent(id, description, skills...)
	a.Card = agentcard.Attach(a.Card, spec)
	return a
}

// files and memory are like MCP's servers of these names.
func files() prompt.Agent {
	return tools("mcp_files", "The tools of the MCP server files", false,
		[3]string{"create_directory", "Create a new directory or ensure a directory exists. Can create multiple nested directories in one operation.", "path:string"},
		[3]string{"get_file_info", "Retrieve detailed metadata about a file or directory, such as size and permissions.", "path:string"},
		[3]string{"list_allowed_directories", "Returns the list of directories that this server is allowed to access.", ""},
		[3]string{"list_directory", "Get a detailed listing of all files and directories in a specified path.", "path:string"},
		[3]string{"read_file", "Read the complete contents of a file as text.", "path:string"},
		[3]string{"write_file", "Create a new file or completely overwrite an existing file with new content.", "path:string content:string"})
}

func memory() prompt.Agent {
	return tools("mcp_memory", "The tools of the MCP server memory", false,
		[3]string{"add_observations", "Add new observations to existing entities in the knowledge graph", "observations:array"},
		[3]string{"delete_entities", "Delete multiple entities and their associated relations from the knowledge graph", "entityNames:array"},
		[3]string{"read_graph", "Read the entire knowledge graph", ""},
		[3]string{"search_nodes", "Search for nodes in the knowledge graph based on a query", "query:string"})
}

// TestStructured holds that no sentence becomes the value of a tool's property, and that the user is told what does.
func TestStructured(t *testing.T) {
	needs := func(command string) string {
		agent, _, _ := strings.Cut(strings.TrimPrefix(command, "@"), "/")
		return "refuse " + agent + " needs more than words for this. Without a model I can only hand on JSON that fits: " + command
	}
	for user, want := range map[string]string{
		"list the directory .":                      needs(`@mcp_files/list_directory {"path":"…"}`),
		"get file info wordcount.yaml":              needs(`@mcp_files/get_file_info {"path":"…"}`),
		"make me a directory listing":               "list_allowed_directories ", // which needs no input
		"create a directory for my notes":           needs(`@mcp_files/create_directory {"path":"…"}`),
		"create a directory in src: notes":          needs(`@mcp_files/create_directory {"path":"…"}`),
		`create the directory "notes" and fill it`:  needs(`@mcp_files/create_directory {"path":"…"}`),
		"write a file please: todo.txt":             needs(`@mcp_files/write_file {"path":"…","content":"…"}`),
		"list the directory: src":                   `list_directory {"path":"src"}`,
		"please list the directory: src":            `list_directory {"path":"src"}`,
		"create the directory: my notes":            `create_directory {"path":"my notes"}`,
		`create the directory "my notes"`:           `create_directory {"path":"my notes"}`,
		`create the directory: "my notes"`:          `create_directory {"path":"my notes"}`,
		"@mcp_files create directory: notes":        `create_directory {"path":"notes"}`,
		"@mcp_files create a directory notes":       needs(`@mcp_files/create_directory {"path":"…"}`),
		"ask mcp_files to create a directory notes": needs(`@mcp_files/create_directory {"path":"…"}`),
		"@mcp_files/create_directory my notes":      `create_directory {"path":"my notes"}`,
		`@mcp_files/read_file {"path":"a.txt"}`:     `read_file {"path":"a.txt"}`,
		`@mcp_files/write_file {"path":"a.txt"}`:    needs(`@mcp_files/write_file {"path":"…","content":"…"}`),
		`@mcp_files {"path":"a","content":"b"}`:     `write_file {"path":"a","content":"b"}`,
		`@mcp_files {"path":"a"}`:                   `refuse Name a skill of mcp_files, as in @mcp_files/SKILL {…}; it has create_directory, get_file_info, list_allowed_directories, `,
		`{"path":"directory"}`:                      needs(`@mcp_files/`),
		"@mcp_files/mkdir x":                        `refuse mcp_files has no skill "mkdir"; it has create_directory, `,
		"@mcp_files hello":                          `refuse Name a skill of mcp_files, as in @mcp_files/SKILL {…}; it has create_directory, `,
		"add 5 and 7":                               "calculate ",
		"add observations to entities":              needs(`@mcp_memory/add_observations {"observations":[…]}`),
		`@mcp_memory {"entityNames":["Ada"]}`:       `delete_entities {"entityNames":["Ada"]}`,
		"search the knowledge graph nodes for Ada":  `search_nodes {"query":"search the knowledge graph nodes for Ada"}`,
		"read the entire knowledge graph":           "read_graph ",
	} {
		tn := turn(user)
		tn.Agents = append(staff(t), files(), memory())
		d := decide(t, tn)
		got := routed(d)
		if d.Kind == llm.KindDelegate && len(d.Delegations) == 1 {
			got = d.Delegations[0].Skill + " " + string(d.Delegations[0].Input)
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q\n got %q\nwant %q", user, got, want)
		}
	}
}

// TestStructuredOnce holds that a tool with effects gets no words that do not plainly ask for it, even if it needs no input.
func TestStructuredOnce(t *testing.T) {
	for user, want := range map[string]string{
		"empty the rubbish bin":        "empty_bin ",
		"is the rubbish bin full":      "refuse bin needs more than words for this. Without a model I can only hand on JSON that fits: @bin/empty_bin {…}",
		"search bin rubbish for a pen": "refuse bin needs more than words for this. Without a model I can only hand on JSON that fits: @bin/search_bin {\"query\":\"…\"}",
	} {
		tn := turn(user)
		tn.Agents = []prompt.Agent{tools("bin", "The rubbish bin", true, [3]string{"empty_bin", "Empties the rubbish bin", ""}, [3]string{"search_bin", "Searches the bin", "query:string"})}
		d := decide(t, tn)
		got := routed(d)
		if d.Kind == llm.KindDelegate && len(d.Delegations) == 1 {
			got = d.Delegations[0].Skill + " " + string(d.Delegations[0].Input)
		}
		if got != want {
			t.Errorf("%q\n got %q\nwant %q", user, got, want)
		}
	}
}
