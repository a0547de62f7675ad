package llm

import (
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/internal/size"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// Role is the author of a Message.
type Role string

// The roles of a Message.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// Message is one message of a Request. Most consist of text only: see [User] and [Assistant].
type Message struct {
	Role  Role
	Parts []Part
}

// Part is a piece of a Message: a text, or an image.
type Part struct {
	Text  string
	Image *Image // nil: the part is its Text
}

// Image is an image for a model.
type Image struct {
	Name string // given by the user or the agent; may be empty
	Type string // its media type, such as image/png
	Data []byte // not empty
}

// User returns a message of the user.
func User(text string) Message { return Message{RoleUser, []Part{{Text: text}}} }

// Assistant returns a message of the model.
func Assistant(text string) Message { return Message{RoleAssistant, []Part{{Text: text}}} }

// Text returns the message for a model that does not accept images: its texts, and a line for each image.
func (m Message) Text() string {
	if len(m.Parts) == 1 && m.Parts[0].Image == nil {
		return m.Parts[0].Text
	}
	return m.Showing().Parts[0].Text
}

// Showing returns the message for a model that accepts images of these types: other images are replaced by a line that says what is left out, and
// why. Without images it has one part.
func (m Message) Showing(types ...string) Message {
	return m.replace(func(i *Image) (why string) {
		switch {
		case len(types) == 0:
			return "this model takes no images"
		case !slices.Contains(types, i.Type):
			return "this model takes no " + prompt.Clean(i.Type, maxImageType)
		}
		return ""
	})
}

// replace returns the message with a line instead of each image for which why returns a reason.
func (m Message) replace(why func(*Image) string) Message {
	out := Message{Role: m.Role}
	for _, p := range m.Parts {
		if p.Image != nil {
			if why := why(p.Image); why != "" {
				p = Part{Text: imageLine(p.Image.Name, p.Image.Type, int64(len(p.Image.Data)), why)}
			}
		}
		if n := len(out.Parts); p.Image == nil && n > 0 && out.Parts[n-1].Image == nil {
			out.Parts[n-1].Text += "\n" + p.Text
			continue
		}
		out.Parts = append(out.Parts, p)
	}
	if len(out.Parts) == 0 {
		out.Parts = []Part{{}}
	}
	return out
}

// Limits of an image's name and type in a line, in characters: they are external.
const (
	maxImageName = 64
	maxImageType = 64
)

// imageLine returns the line that replaces an image.
func imageLine(name, mediaType string, bytes int64, why string) string {
	if name = strings.Trim(strings.Map(noBracket, prompt.Clean(name, maxImageName)), " "); name != "" {
		name = " " + name
	}
	return "[image" + name + ", " + strings.Map(noBracket, prompt.Clean(mediaType, maxImageType)) + ", " + size.Text(bytes) + ": " + why + "]"
}

// noBracket prevents a name from ending its line, and from beginning a block of a prompt.
func noBracket(r rune) rune {
	switch r {
	case '[', ']', '<', '>':
		return '_'
	}
	return r
}

// ImageTokens is the estimated number of tokens of an image. Providers count from 260 to 2,500, depending on its pixels.
const ImageTokens = 1600

// Size returns the bytes of text of r, including its schema, and the number of images. The schema counts because it may be sent as part of the
// prompt.
func (r *Request) Size() (bytes, images int) {
	bytes = len(r.System) + len(r.Schema)
	for i := range r.Messages {
		for j := range r.Messages[i].Parts {
			p := &r.Messages[i].Parts[j]
			if bytes += len(p.Text); p.Image != nil {
				images++
			}
		}
	}
	return bytes, images
}
