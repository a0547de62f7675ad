package repl

import (
	"context"
	"fmt"
)

// viKeys translates the keys of vi mode. The library knows most of them, but it takes each escape for the Escape key, even in arrow keys, does not
// recover from Ctrl-D in command mode, and takes a wakeMark for the object of a command. So viKeys tracks the mode, and passes complete commands.
type viKeys struct {
	commands bool   // in command mode, not inserting
	held     string // a command whose object is not yet typed
}

// Keys that the library does not know, as keys that it knows, and keys that it ignores in command mode.
var (
	viMoves = map[string]string{
		"\x1b[D": "h", "\x1bOD": "h", "\x1b[C": "l", "\x1bOC": "l", "\x1b[A": "k", "\x1bOA": "k", "\x1b[B": "j", "\x1bOB": "j", "\x10": "k", "\x0e": "j",
		"\x1b[H": "0", "\x1bOH": "0", "\x1b[1~": "0", "\x1b[7~": "0", "\x1b[F": "$", "\x1bOF": "$", "\x1b[4~": "$", "\x1b[8~": "$", "\x1b[3~": "x", "\x7f": "h",
	}
	toEnd = "i\x0b" // insert, then delete to the end of the line
)

// next returns the keys to pass to the library for a key, and whether the user wants to change the line in an editor. empty says that the line is
// empty.
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
		return "", false // not a letter
	case held != "":
		v.commands = held != "c"
		if held == "r" {
			held = string(replaceMark)
		}
		return held + key, false
	}
	switch key {
	case "r", "d", "c", "f", "F", "t", "T":
		v.held = key
		return "", false
	case "e", "E":
		key = string(wordEndMark)
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

// insert returns text with the keys that make the library insert it.
func (v *viKeys) insert(text string) string {
	if v.commands {
		text = "i" + text
	}
	v.commands, v.held = false, ""
	return text
}

// vi switches vi mode on or off.
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
