package llm

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// Bounds of the images of one request: the latest are shown. Providers accept more images, but bound the size of a request (Google: 20 MB), in which
// an image takes 4/3 of its size. Each image costs as much as several pages of text, at every decision of the conversation.
const (
	MaxImages     = 10
	MaxImageBytes = 10 << 20 // of all together
)

// imageTypes are the types that some model accepts; files of other types are not treated as images.
var imageTypes = []string{"image/png", "image/jpeg", "image/webp", "image/gif", "image/heic", "image/heif"}

// place is the position of a file in a prompt.
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

// name adds a line to the messages of r, the request for p, for each image that is not shown.
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

// show adds the images to the messages of r, each after its key. It adds a line instead of an image that cannot be shown.
func (d *decider) show(ctx context.Context, t *Turn, r *Request, p *prompt.Prompt, shown map[place]bool) error {
	room := MaxImageBytes // they may be larger than stated
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

// openImage returns an image, or why it cannot be shown. It detects the type from the content.
func openImage(ctx context.Context, t *Turn, f *prompt.File, room int) (image *Image, why string) {
	if t.Open == nil {
		return nil, "it cannot be read here"
	}
	data, err := t.Open(ctx, f.Key, MaxImageBytes)
	if err != nil {
		return nil, prompt.Clean(err.Error(), maxWhy)
	}
	kind := http.DetectContentType(data)
	if kind == "application/octet-stream" && (f.Type == "image/heic" || f.Type == "image/heif") { // net/http does not detect these
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

// dropImages removes the images from r when err means that the endpoint rejects the request: an invalid image from an external source would otherwise make
// every later decision of the conversation fail, too. It reports whether there were images.
func (x *exchange) dropImages(r *Request, err error) bool {
	if _, images := r.Size(); images == 0 || !errors.Is(err, ErrBadRequest) && !errors.Is(err, ErrTooLong) {
		return false
	}
	for i := range r.Messages {
		r.Messages[i] = r.Messages[i].replace(func(*Image) string { return "the endpoint did not take the request with it" })
	}
	return true
}
