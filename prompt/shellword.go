package prompt

import "strings"

// maxShellWord bounds a word of a command, in characters.
const maxShellWord = 4096

// ShellWord returns s as one word of a command that is shown to be copied into a shell. It is quoted if a shell may take it for anything else. The
// quotes are those that sh, bash, zsh and fish have in common: for fish, a backslash escapes the quote behind it, so where there are quotes within s,
// or one would come behind a backslash, backslashes stand outside the quotes.
func ShellWord(s string) string {
	s = Clean(s, maxShellWord)
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:@%+,"
	if s != "" && s[0] != '=' && strings.Trim(s, plain) == "" { // zsh takes =ls for the path of ls
		return s
	}
	if strings.Contains(s, "'") || strings.Contains(s, `\\`) || strings.HasSuffix(s, `\`) {
		s = strings.NewReplacer("'", `'\''`, `\`, `'\\'`).Replace(s)
	}
	return "'" + s + "'"
}
