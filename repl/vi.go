package repl

import (
	"context"
	"fmt"
)

// viKeys are the keys of one who types as in vi. The library knows most of them; but it takes every escape for the key itself, also that of the
// arrows, it does not come back from a Ctrl-D among commands, and takes a wakeMark for what a command is about. So this follows what it is in, and
// gives it commands whole.
type viKeys struct {
	commands bool   // rather than text
	held     string // a command, until it is known what it is about
}

// The keys that the library has no command for, as keys that it has, and those that mean nothing to it among commands.
var (
	viMoves = map[string]string{
		"\x1b[D": "h", "\x1bOD": "h", "\x1b[C": "l", "\x1bOC": "l", "\x1b[A": "k", "\x1bOA": "k", "\x1b[B": "j", "\x1bOB": "j", "\x10": "k", "\x0e": "j",
		"\x1b[H": "0", "\x1bOH": "0", "\x1b[1~": "0", "\x1b[7~": "0", "\x1b[F": "$", "\x1bOF": "$", "\x1b[4~": "$", "\x1b[8~": "$", "\x1b[3~": "x", "\x7f": "h",
	}
	toEnd = "i\x0b" // inserting, away with all to the end of the line
)

// next returns what the library gets for a key, and reports whether the line is to be changed in an editor. empty says that nothing is in it.
func (v *viKeys) next(key string, empty bool) (send string, edit bool) {
	held := v.held
	v.held = ""
	if !v.commands {
		if key == "\x1b" {
			v.commands = true
			key = string(escapeMark)
		}
		return key, false
	}
	if move, ok := viMoves[key]; ok {
		key = move
	}
	switch key {
	case "\r", "\n", "\x03":
		v.commands = false
		if key == "\n" {
			key = "\r"
		}
		return key, false
	case "\x1b":
		return "", false
	case "\x04":
		if !empty || held != "" {
			return "", false
		}
		v.commands = false
		return "i" + key, false
	}
	switch {
	case len(key) > 1 && key[0] == 0x1b, key[0] < ' ':
		return "", false // another key than a letter
	case held != "":
		v.commands = held != "c"
		return held + key, false
	}
	switch key {
	case "r", "d", "c", "f", "F", "t", "T":
		v.held = key
		return "", false
	case "i", "I", "a", "A", "s", "S":
		v.commands = false
	case "D":
		key = toEnd + string(escapeMark)
	case "C":
		key, v.commands = toEnd, false
	case "v":
		v.commands = false
		return "\r", true
	}
	return key, false
}

// insert returns text so that the library takes it for text.
func (v *viKeys) insert(text string) string {
	if v.commands {
		text = "i" + text
	}
	v.commands, v.held = false, ""
	return text
}

// vi has the keys of vi be those of the line, or no longer.
func (c *chat) vi(_ context.Context, how string) error {
	on := how == "on"
	switch {
	case how != "" && !on && how != "off":
		return fmt.Errorf("%s: it is on or off", oneLine(how))
	case !c.ui.editor.vi(on || how == "" && c.Keys == KeysVi):
		return errDumb
	case how == "":
		text := "vi keys are off; /vi on has them in this chat, and `keys: vi` in the config file in all"
		if c.Keys == KeysVi {
			text = "vi keys are on; /vi off ends that in this chat"
		}
		c.ui.Say(text, lookDim)
		return nil
	}
	c.Keys = ""
	if on {
		c.Keys = KeysVi
	}
	c.ui.Say("vi keys are "+how+" in this chat", lookDim)
	return nil
}
