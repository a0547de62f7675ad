package persona

import (
	"path"
	"slices"
	"strings"
)

// Choice says which tools a persona may use.
type Choice struct {
	Allowed []string // as written; nil: all
	Denied  []string
}

// Names of the tools that a persona has without a server.
const (
	toolRead     = "Read"
	toolGlob     = "Glob"
	toolGrep     = "Grep"
	toolWrite    = "Write"
	toolEdit     = "Edit"
	toolDelegate = "delegate"
	toolAsk      = "ask_user"
	toolSkill    = "load_skill"
	toolFile     = "read_skill_file"
	toolResult   = "read_result"
	toolOpen     = "open_file"
	toolRemember = "remember"
	toolRecall   = "recall"
	toolList     = "list_memory"
	toolSearch   = "search_memory"
)

// known maps words for tools, in lower case, as Claude Code and VS Code write them, to tools here. An empty list: there is no such tool here.
var known = map[string][]string{
	"read": {toolRead}, "readfile": {toolRead}, "read/readfile": {toolRead}, "read_file": {toolRead},
	"glob": {toolGlob}, "filesearch": {toolGlob}, "listdirectory": {toolGlob}, "ls": {toolGlob},
	"grep": {toolGrep}, "textsearch": {toolGrep}, "codebase": {toolGrep}, "usages": {toolGrep},
	"search": {toolGrep, toolGlob}, "search/codebase": {toolGrep}, "search/textsearch": {toolGrep}, "search/filesearch": {toolGlob},
	"write": {toolWrite}, "createfile": {toolWrite}, "multiedit": {toolEdit}, "editfiles": {toolEdit, toolWrite}, "edit/editfiles": {toolEdit, toolWrite},
	"edit": {toolEdit}, "agent": {toolDelegate}, "task": {toolDelegate}, "runsubagent": {toolDelegate}, "delegate": {toolDelegate},
	"askuserquestion": {toolAsk}, "ask_user": {toolAsk}, "skill": {toolSkill},
	"remember": {toolRemember}, "recall": {toolRecall}, "list_memory": {toolList}, "search_memory": {toolSearch},
	"bash": {}, "bashoutput": {}, "killshell": {}, "webfetch": {}, "websearch": {}, "todowrite": {}, "todo": {}, "todos": {}, "notebookedit": {},
	"fetch": {}, "web": {}, "web/fetch": {}, "execute": {}, "runcommands": {}, "runtasks": {}, "terminal": {}, "vscode": {}, "changes": {}, "problems": {},
	"githubrepo": {}, "exitplanmode": {}, "slashcommand": {}, "notebookread": {},
}

// always has the tools that need no permission: they reach nothing but the task itself.
var always = []string{toolAsk, toolSkill, toolFile, toolResult, toolOpen, toolRemember, toolRecall, toolList, toolSearch}

// May reports whether a tool may be used. An MCP server's tool is named mcp__SERVER__TOOL.
func (c *Choice) May(tool string) bool {
	if names(c.Denied, tool) {
		return false
	}
	return c.Allowed == nil || slices.Contains(always, tool) || names(c.Allowed, tool)
}

// Foreign returns the words of the list for which there is no tool, given the names of those that there are.
func (c *Choice) Foreign(tools []string) []string {
	var missing []string
	for _, word := range c.Allowed {
		if !slices.ContainsFunc(tools, func(tool string) bool { return names([]string{word}, tool) }) {
			missing = append(missing, word)
		}
	}
	return missing
}

// Agents returns the agents that words such as Task(reviewer, tester) name; nil: they name none.
func (c *Choice) Agents() []string {
	var all []string
	for _, word := range c.Allowed {
		kind, in, ok := strings.Cut(word, "(")
		if slices.Contains(known[strings.ToLower(strings.TrimSpace(kind))], toolDelegate) && ok {
			all = append(all, trimmed(strings.Split(strings.TrimSuffix(in, ")"), ","))...)
		}
	}
	return all
}

// names reports whether any word means the tool.
func names(words []string, tool string) bool {
	server, own, ofServer := cutTool(tool)
	return slices.ContainsFunc(words, func(word string) bool {
		word, _, _ = strings.Cut(word, "(") // Bash(git:*), Task(reviewer)
		if word = strings.TrimSpace(word); word == "*" || strings.EqualFold(word, tool) {
			return true
		}
		if !ofServer {
			return slices.Contains(known[strings.ToLower(word)], tool)
		}
		if s, t, ok := cutTool(word); ok {
			word = s + "/" + t
		} else if s, ok := strings.CutPrefix(word, "mcp__"); ok {
			word = s + "/*"
		} else if !strings.Contains(word, "/") {
			word += "/*" // VS Code: a server's name
		}
		matches, err := path.Match(word, server+"/"+own)
		return err == nil && matches
	})
}

// cutTool returns the server of a tool that is named mcp__SERVER__TOOL.
func cutTool(name string) (server, tool string, ok bool) {
	rest, ok := strings.CutPrefix(name, "mcp__")
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "__")
}

// Wants reports whether a word of the list names a tool of an MCP server.
func (c *Choice) Wants(server string) bool {
	return slices.ContainsFunc(c.Allowed, func(word string) bool {
		s, _, ofServer := cutTool(word)
		return ofServer && s == server || word == "mcp__"+server || word == server || strings.HasPrefix(word, server+"/")
	})
}
