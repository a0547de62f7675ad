package repl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// The themes, see [Config].
const (
	ThemeAuto  = "auto"
	ThemeDark  = "dark"
	ThemeLight = "light"
	ThemePlain = "plain"
)

// Themes are the names of the themes.
var Themes = []string{ThemeAuto, ThemeDark, ThemeLight, ThemePlain}

// style is the theme that text is shown in; "" leaves it alone, also what is bold.
type style string

// themed returns the style of a theme: where it is left open, the one for the background that the terminal says it has.
func themed(theme string) style {
	switch theme {
	case ThemeDark, ThemeLight, ThemePlain:
		return style(theme)
	}
	// Some terminals say which of the 16 colours they have before and behind a text: "0;15" is black on white.
	colours := strings.Split(os.Getenv("COLORFGBG"), ";")
	if back := colours[len(colours)-1]; back == "7" || back == "15" {
		return ThemeLight
	}
	return ThemeDark
}

// theme says what colours there are, or chooses others for this chat.
func (c *chat) theme(_ context.Context, name string) error {
	switch {
	case c.ui.style == "":
		return errors.New("there are no colours here: see --color and NO_COLOR")
	case name == "":
		c.ui.Say(fmt.Sprintf("the colours are those of %s; there are %s", c.ui.style, strings.Join(Themes, ", ")), lookDim)
		return nil
	case !slices.Contains(Themes, name):
		return fmt.Errorf("no theme %s; there are %s", oneLine(name), strings.Join(Themes, ", "))
	}
	c.ui.dress(themed(name))
	text := fmt.Sprintf("the colours are those of %s in this chat", c.ui.style)
	if name != ThemeAuto {
		text += "; `theme: " + name + "` in the config file keeps them"
	}
	c.ui.Say(text, lookDim)
	return nil
}

// onLight are the colours for those that cannot be read on a light background.
var onLight = map[string]string{lookYellow: "35", lookCode: "34"}

// paint returns a text as it is written to a terminal, in a look: parameters of its colours, as a dark background wants them.
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

// lines returns a text in a look as lines of a screen, broken between its words.
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
