package prompt

import "strings"

// maxShellWord bounds a word of a command, in characters.
const maxShellWord = 4096

// ShellWord returns s as one word of a shell command for users to copy. It quotes s if a shell may interpret it. The quotes work in sh, bash, zsh and
// fish: in fish, a backslash escapes a quote that follows it, so backslashes stand outside the quotes if s has quotes, or if a quote would follow a
// backslash.
func ShellWord(s string) string {
	s = Clean(s, maxShellWord)
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:@%+,"
	if s != "" && s[0] != '=' && strings.Trim(s, plain) == "" { // zsh replaces =ls by the path of ls
		return s
	}
	if strings.Contains(s, "'") || strings.Contains(s, `\\`) || strings.HasSuffix(s, `\`) {
		s = strings.NewReplacer("'", `'\''`, `\`, `'\\'`).Replace(s)
	}
	return "'" + s + "'"
}
