package llm_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// picture returns bytes of this size that look like an image.
func picture(kind string, size int) []byte {
	head := map[string]string{"image/png": "\x89PNG\r\n\x1a\n", "image/jpeg": "\xff\xd8\xff", "image/webp": "RIFF\x00\x00\x00\x00WEBPVP"}[kind]
	return append([]byte(head), make([]byte, size-len(head))...)
}

// gallery returns a turn with images in an earlier message, in its result, and in the present message.
func gallery() *llm.Turn {
	tn := turn()
	files := map[string][]byte{
		"f1": picture("image/jpeg", 100), "f2": picture("image/png", 200), "f3": []byte("a,b\n"), "f4": picture("image/webp", 300),
		"f5": []byte("<html>"),
	}
	tn.History = []prompt.Turn{{
		User: "draw this", Files: []prompt.File{{Key: "f1", Name: "old.jpg", Type: "image/jpeg", Size: 100}}, Answer: "Here.",
		Steps: []prompt.Step{{Tasks: []prompt.Task{{
			ID: "t1", Agent: "agent_calc", State: a2a.TaskStateCompleted, Files: []prompt.File{{Key: "f2", Name: "plot.png", Type: "image/png", Size: 200}},
		}}}},
	}}
	tn.Files = []prompt.File{
		{Key: "f3", Name: "data.csv", Type: "text/csv", Size: 4},
		{Key: "f4", Name: "new.png", Type: "image/png", Size: 300},
		{Key: "f5", Name: "fake.png", Type: "image/png", Size: 6},
		{Key: "f6", Name: "gone].png", Type: "image/png", Size: 14_022},
	}
	tn.Open = func(_ context.Context, key string, _ int64) ([]byte, error) {
		if b, ok := files[key]; ok {
			return b, nil
		}
		return nil, errors.New("the file is\ngone")
	}
	return tn
}

// shown returns the parts of each message after its text.
func shown(r *llm.Request) (parts [][]llm.Part) {
	for _, m := range r.Messages {
		parts = append(parts, m.Parts[1:])
	}
	return parts
}

// TestImages shows a model the images of the conversation, each in its message and after its key, with their detected types.
func TestImages(t *testing.T) {
	c := llmtest.Script(llmtest.Text(hello))
	if _, err := llm.NewDecider(c, templates(t), &llm.DeciderOptions{Images: true}).Decide(t.Context(), gallery(), nil); err != nil {
		t.Fatal(err)
	}
	want := [][]llm.Part{
		{{Text: "Image f1:"}, {Image: &llm.Image{Name: "old.jpg", Type: "image/jpeg", Data: picture("image/jpeg", 100)}}},
		{},
		{{Text: "Image f2:"}, {Image: &llm.Image{Name: "plot.png", Type: "image/png", Data: picture("image/png", 200)}}},
		{},
		{
			{Text: "Image f4:"},
			{Image: &llm.Image{Name: "new.png", Type: "image/webp", Data: picture("image/webp", 300)}},
			{Text: "[image fake.png, image/png, 6 bytes: it is not what it says it is]"},
			{Text: "[image gone_.png, image/png, 14 kB: the file is gone]"},
		},
	}
	if diff := cmp.Diff(want, shown(c.Requests()[0])); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}

// TestImagesNamed checks that a model without images gets lines about them, and that none is opened.
func TestImagesNamed(t *testing.T) {
	tn := gallery()
	tn.Open = func(context.Context, string, int64) ([]byte, error) { panic("opened") }
	_, _, c, err := decide(t, tn, llmtest.Text(hello))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, m := range c.Requests()[0].Messages {
		for line := range strings.Lines(m.Text()) {
			if strings.HasPrefix(line, "[image") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
	}
	want := []string{
		"[image old.jpg, image/jpeg, 100 bytes: this model takes no images]", "[image plot.png, image/png, 200 bytes: this model takes no images]",
		"[image new.png, image/png, 300 bytes: this model takes no images]", "[image fake.png, image/png, 6 bytes: this model takes no images]",
		"[image gone_.png, image/png, 14 kB: this model takes no images]",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// TestImagesBounded shows the latest images, as many as one request may have, whatever their stated sizes are.
func TestImagesBounded(t *testing.T) {
	for name, c := range map[string]struct {
		images, said, size int
		want               int
	}{
		"few":            {3, 1000, 1000, 3},
		"many":           {llm.MaxImages + 3, 1000, 1000, llm.MaxImages},
		"large":          {5, 3 << 20, 3 << 20, 3},
		"one over all":   {1, llm.MaxImageBytes + 1, llm.MaxImageBytes + 1, 0},
		"larger than so": {5, 1, 3 << 20, 3},
	} {
		t.Run(name, func(t *testing.T) {
			tn := turn()
			data := picture("image/png", c.size)
			for i := range c.images {
				tn.History = append(tn.History, prompt.Turn{
					User: "see", Answer: "ok", Files: []prompt.File{{Key: fmt.Sprint("f", i), Name: fmt.Sprint(i, ".png"), Type: "image/png", Size: int64(c.said)}},
				})
			}
			opened := 0
			tn.Open = func(context.Context, string, int64) ([]byte, error) {
				opened++
				return data, nil
			}
			client := llmtest.Script(llmtest.Text(hello))
			if _, err := llm.NewDecider(client, templates(t), &llm.DeciderOptions{Images: true}).Decide(t.Context(), tn, nil); err != nil {
				t.Fatal(err)
			}
			if c.said == c.size && opened != c.want {
				t.Errorf("%d files were opened, want %d", opened, c.want)
			}
			r := client.Requests()[0]
			if _, images := r.Size(); images != c.want {
				t.Errorf("%d images are shown, want %d", images, c.want)
			}
			for i := range c.images {
				m := r.Messages[2*i]
				_, image := (&llm.Request{Messages: []llm.Message{m}}).Size()
				if newest := i >= c.images-c.want; (image == 1) != newest || strings.Contains(m.Text(), ": not shown, since") == newest {
					t.Errorf("message %d of %d has %d images and says %q", i, c.images, image, m.Text())
				}
			}
		})
	}
}

// TestBadImage checks that a request that the endpoint rejects is repeated without images: an external image may be invalid for the endpoint, and
// stays in the conversation.
func TestBadImage(t *testing.T) {
	for _, kind := range []error{llm.ErrBadRequest, llm.ErrTooLong} {
		refuse := llmtest.Func(func(_ context.Context, r *llm.Request) llmtest.Answer {
			if _, images := r.Size(); images > 0 {
				return llmtest.Fail(fmt.Errorf("could not process image: %w", kind))
			}
			return llmtest.Text(hello)
		})
		c := llmtest.Script(refuse, refuse, refuse)
		d, err := llm.NewDecider(c, templates(t), &llm.DeciderOptions{Images: true}).Decide(t.Context(), gallery(), nil)
		if err != nil || d.Say != "Hello!" || len(c.Requests()) != 2 {
			t.Errorf("%v: Decide = %+v, %v after %d requests, want an answer to the second", kind, d, err, len(c.Requests()))
			continue
		}
		if text := lastOf(c.Requests()[1]); !strings.Contains(text, "[image new.png, image/webp, 300 bytes: the endpoint did not take the request with it]") {
			t.Errorf("the second request says %q", text)
		}
	}
	c := llmtest.Script(llmtest.Fail(llm.ErrBadRequest), llmtest.Text(hello))
	if _, err := llm.NewDecider(c, templates(t), &llm.DeciderOptions{Images: true}).Decide(t.Context(), turn(), nil); !errors.Is(err, llm.ErrBadRequest) {
		t.Errorf("without an image: %v, want ErrBadRequest", err)
	}
}

// TestImageTokens counts images against the window and the budget.
func TestImageTokens(t *testing.T) {
	tn := gallery()
	var need int
	for _, images := range []bool{false, true} {
		c := llmtest.Script(llmtest.Text(hello))
		d := llm.NewDecider(c, templates(t), &llm.DeciderOptions{Images: images, Window: 1 << 20})
		got, err := d.Decide(t.Context(), tn, nil)
		if err != nil {
			t.Fatal(err)
		}
		bytes, n := c.Requests()[0].Size()
		if want := (bytes+2)/3 + n*llm.ImageTokens; got.Usage.Input != want || !got.Usage.Estimated {
			t.Errorf("images %v: %d tokens are counted, want %d", images, got.Usage.Input, want)
		}
		need = got.Usage.Input
	}
	c := llmtest.Script(llmtest.Text(hello))
	tn.Budget.Tokens = need
	if _, err := llm.NewDecider(c, templates(t), &llm.DeciderOptions{Images: true}).Decide(t.Context(), tn, nil); !errors.Is(err, llm.ErrBudget) {
		t.Errorf("with a budget of no more than the prompt: %v, want ErrBudget", err)
	}
	small := llm.NewDecider(c, templates(t), &llm.DeciderOptions{Images: true, Window: 2 * need})
	if _, err := small.(llm.Compactor).Compact(t.Context(), &llm.Turn{Input: prompt.Input{User: "see", Files: tn.Files}}, false); err != nil {
		t.Errorf("Compact of what fits = %v", err)
	}
	many := &llm.Turn{}
	for i := range llm.MaxImages {
		many.Files = append(many.Files, prompt.File{Key: fmt.Sprint("f", i), Type: "image/png", Size: 1})
	}
	tiny := llm.NewDecider(c, templates(t), &llm.DeciderOptions{Images: true, Window: llm.MaxImages * llm.ImageTokens})
	if _, err := tiny.(llm.Compactor).Compact(t.Context(), many, false); !errors.Is(err, llm.ErrTooLong) {
		t.Errorf("Compact of images that fill the window = %v, want ErrTooLong", err)
	}
}

func TestMessage(t *testing.T) {
	png, odd := &llm.Image{Name: "a\n[b]\u202e<c>.png", Type: "image/png", Data: make([]byte, 14_022)}, &llm.Image{Type: "image/x"}
	m := llm.Message{Role: llm.RoleUser, Parts: []llm.Part{{Text: "see"}, {Image: png}, {Text: "and"}, {Image: odd}, {Image: png}}}
	const noPNG = "[image a _b__c_.png, image/png, 14 kB: this model takes no images]"
	if got, want := m.Text(), "see\n"+noPNG+"\nand\n[image, image/x, 0 bytes: this model takes no images]\n"+noPNG; got != want {
		t.Errorf("Text = %q, want %q", got, want)
	}
	want := []llm.Part{{Text: "see"}, {Image: png}, {Text: "and\n[image, image/x, 0 bytes: this model takes no image/x]"}, {Image: png}}
	if diff := cmp.Diff(want, m.Showing("image/png").Parts); diff != "" {
		t.Errorf("Showing (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(llm.Message{Role: llm.RoleUser, Parts: []llm.Part{{}}}, llm.Message{Role: llm.RoleUser}.Showing()); diff != "" {
		t.Errorf("Showing of nothing (-want +got):\n%s", diff)
	}
	if got := (llm.Message{}).Text(); got != "" {
		t.Errorf("Text of nothing = %q", got)
	}
}
