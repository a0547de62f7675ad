package repl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Values of [Config.Theme].
const (
	ThemeAuto  = "auto"
	ThemeDark  = "dark"
	ThemeLight = "light"
	ThemePlain = "plain"
)

// Themes are the names of the themes.
var Themes = []string{ThemeAuto, ThemeDark, ThemeLight, ThemePlain}

// style is the theme of the output; "" is no formatting at all, not even bold.
type style string

// themed returns the style of a theme: for auto, by the background that the terminal reports.
func themed(theme string) style {
	switch theme {
	case ThemeDark, ThemeLight, ThemePlain:
		return style(theme)
	}
	// Some terminals report which of the 16 colours are their foreground and background: "0;15" is black on white.
	colours := strings.Split(os.Getenv("COLORFGBG"), ";")
	if back := colours[len(colours)-1]; back == "7" || back == "15" {
		return ThemeLight
	}
	return ThemeDark
}

// theme shows the theme, or changes it for this chat.
func (c *chat) theme(_ context.Context, name string) error {
	switch {
	case c.ui.style == "":
		return errors.New("there are no colours here: see --color and NO_COLOR")
	case name == "":
		c.ui.Say(fmt.Sprintf("the theme is %s; /theme %s changes it", c.ui.style, orList(Themes)), lookDim)
		return nil
	case !slices.Contains(Themes, name):
		return fmt.Errorf("no theme %s; there are %s", oneLine(name), strings.Join(Themes, ", "))
	}
	c.ui.setStyle(themed(name))
	text := fmt.Sprintf("the theme of this chat is %s now", c.ui.style)
	if name != ThemeAuto {
		text += "; `theme: " + name + "` in the config file keeps it"
	}
	c.ui.Say(text, lookDim)
	return nil
}

// orList lists words: "a, b or c".
func orList(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// onLight replaces colours that are unreadable on a light background.
var onLight = map[string]string{lookYellow: "35", lookCode: "34"}

// paint formats a text for a terminal in a look, whose parameters are those for a dark background.
func (s style) paint(look, text string) string {
	if s == "" || look == "" || text == "" {
		return text
	}
	var codes []string
	for code := range strings.SplitSeq(look, ";") {
		colour := len(code) == 2
		switch {
		case s == ThemePlain && colour:
			continue
		case s == ThemeLight && onLight[code] != "":
			code = onLight[code]
		}
		codes = append(codes, code)
	}
	if len(codes) == 0 {
		return text
	}
	return "\x1b[" + strings.Join(codes, ";") + "m" + text + "\x1b[0m"
}

// lines formats a text in a look, wrapped between words to width.
func (s style) lines(text, look string, width int) string {
	var lines []string
	for _, line := range wrapSpans([]span{{text, look}}, width-1, false) {
		lines = append(lines, s.paintAll(line))
	}
	return strings.Join(lines, "\n")
}

func (s style) dim(text string) string    { return s.paint(lookDim, text) }
func (s style) red(text string) string    { return s.paint(lookRed, text) }
func (s style) green(text string) string  { return s.paint(lookGreen, text) }
func (s style) yellow(text string) string { return s.paint(lookYellow, text) }
