package llm

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// Bounds of the images of one request: the newest are shown. Vendors take more images, but bound a request's bytes, Google at 20 MB, of
// which an image needs a third more than it has; each costs as much as pages of text, again at every decision of the conversation.
const (
	MaxImages     = 10
	MaxImageBytes = 10 << 20 // of all together
)

// imageTypes are what some model takes; what is none of these is no image here.
var imageTypes = []string{"image/png", "image/jpeg", "image/webp", "image/gif", "image/heic", "image/heif"}

// place says where a prompt names a file.
type place struct{ message, file int }

// shown returns which images of p the model is shown.
func (d *decider) shown(p *prompt.Prompt) map[place]bool {
	if !d.options.Images {
		return nil
	}
	shown := map[place]bool{}
	room := int64(MaxImageBytes)
	for i, m := range slices.Backward(p.Messages) {
		for j, f := range m.Files {
			if isImage(&f) && len(shown) < MaxImages && f.Size <= room {
				room -= f.Size
				shown[place{i, j}] = true
			}
		}
	}
	return shown
}

func isImage(f *prompt.File) bool { return slices.Contains(imageTypes, f.Type) }

// name adds to the messages of r, the request for p, a line for each image that is not shown.
func (d *decider) name(r *Request, p *prompt.Prompt, shown map[place]bool) {
	why := "this model takes no images"
	if d.options.Images {
		why = "not shown, since the newest images are enough for one request"
	}
	for i, m := range p.Messages {
		for j, f := range m.Files {
			if isImage(&f) && !shown[place{i, j}] {
				r.Messages[i].Parts[0].Text += "\n" + imageLine(f.Name, f.Type, f.Size, why)
			}
		}
	}
}

// show adds to the messages of r the images that are shown, each behind its key. Of one that cannot be shown it says so.
func (d *decider) show(ctx context.Context, t *Turn, r *Request, p *prompt.Prompt, shown map[place]bool) error {
	room := MaxImageBytes // they may have more bytes than was said
	for i, m := range slices.Backward(p.Messages) {
		for j, f := range m.Files {
			if !shown[place{i, j}] {
				continue
			}
			image, why := openImage(ctx, t, &f, room)
			if err := ctx.Err(); err != nil {
				return err
			}
			parts := &r.Messages[i].Parts
			if image == nil {
				(*parts) = append(*parts, Part{Text: imageLine(f.Name, f.Type, f.Size, why)})
				continue
			}
			room -= len(image.Data)
			*parts = append(*parts, Part{Text: "Image " + f.Key + ":"}, Part{Image: image})
		}
	}
	return nil
}

// openImage returns an image, or why it cannot be shown. Its type is what it is, and not what is said.
func openImage(ctx context.Context, t *Turn, f *prompt.File, room int) (image *Image, why string) {
	if t.Open == nil {
		return nil, "it cannot be read here"
	}
	data, err := t.Open(ctx, f.Key)
	if err != nil {
		return nil, prompt.Clean(err.Error(), maxWhy)
	}
	kind := http.DetectContentType(data)
	if kind == "application/octet-stream" && (f.Type == "image/heic" || f.Type == "image/heif") { // which net/http does not know
		kind = f.Type
	}
	switch {
	case len(data) > room:
		return nil, "not shown, since it is too large"
	case len(data) == 0 || !slices.Contains(imageTypes, kind):
		return nil, "it is not what it says it is"
	}
	return &Image{Name: f.Name, Type: kind, Data: data}, ""
}

// blind takes the images out of r when err says that the endpoint does not take the request as it is: one that cannot be read, which a
// stranger may have sent, would else end every later decision of the conversation, too. It reports whether there was one.
func (x *exchange) blind(r *Request, err error) bool {
	if _, images := r.Size(); images == 0 || !errors.Is(err, ErrBadRequest) && !errors.Is(err, ErrTooLong) {
		return false
	}
	for i := range r.Messages {
		r.Messages[i] = r.Messages[i].without("the endpoint did not take the request with it")
	}
	return true
}
