package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	maxTurns   = 50      // that a chat shows
	mostTurns  = 1000    // that it shows when all turns are asked for
	maxShown   = 4 << 20 // bytes of the texts of these turns; the last turn is shown in any case
	maxAll     = 8 << 20 // of all turns of a conversation, when these are asked for
	maxLive    = 1 << 20 // of the turns that a live page can still change
	maxListed  = 100     // conversations in the list
	maxScanned = 5000    // conversations whose titles and messages are searched
	uploadTime = 5 * time.Minute
)

// chatData is what the page of a conversation shows.
type chatData struct {
	ContextID string
	MessageID string // of the next message
	Turns     []*turnData
	Earlier   int
	All       bool // more of them are not shown
	Version   conversation.Version
	Notice    string // why a message was refused, or that it is on its way
	Pending   bool
	Closed    string // why this person may not speak here; "": they may
	Shared    string // who else speaks here
	List      *listData
	New       bool
	Agents    int
}

// turnData is a turn, and what the part that shows it has to know.
type turnData struct {
	*view.Turn
	ContextID string
	MessageID string // of a reply
	Mine      bool   // may be replied to and stopped
	Question  string
	Alike     func(string) string
	Now       time.Time
}

// listData is the list of conversations.
type listData struct {
	Query  string
	At     string
	Rows   []listRow
	More   bool
	Unread int // conversations that could not be searched, or not in time
	Now    time.Time
}

func (c *Console) newChat(w http.ResponseWriter, r *http.Request, who Person) error {
	if r.URL.Query().Get("q") != "" {
		leave, err := c.enterPage(r.Context(), w, who, 2*maxShown)
		if err != nil {
			return err
		}
		defer leave()
	}
	list, err := c.list(r.Context(), r.URL.Query().Get("q"), "")
	if err != nil {
		return err
	}
	own := c.cfg.Client
	c.show(w, r, http.StatusOK, &page{Name: "chat", Title: "New conversation", Section: "chat", Wide: true, Data: &chatData{
		ContextID: own.NextID(), MessageID: own.NextID(), List: list, New: true, Agents: len(c.cfg.Agents().Routable()),
	}})
	return nil
}

// conversations answers with the list alone, for programs and for the page, which brings its list up to date.
func (c *Console) conversations(w http.ResponseWriter, r *http.Request, who Person) error {
	if wantsJSON(r) || r.URL.Query().Get("q") != "" { // many logs are read
		leave, err := c.enterPage(r.Context(), w, who, 2*maxShown)
		if err != nil {
			return err
		}
		defer leave()
	}
	if wantsJSON(r) {
		list, _, err := view.Conversations(r.Context(), c.reader(), maxScanned)
		if err != nil {
			return err
		}
		known, err := view.DetailsOf(r.Context(), c.reader(), list)
		if err != nil {
			return err
		}
		return answerJSON(w, view.ConversationsJSON(list, known))
	}
	list, err := c.list(r.Context(), r.URL.Query().Get("q"), r.URL.Query().Get("at"))
	if err != nil {
		return err
	}
	html, err := fragment("conversations", list)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, err = io.WriteString(w, html)
	return err
}

// contextOf returns the conversation that a URL names.
func contextOf(r *http.Request) (string, error) {
	id := r.PathValue("context")
	if err := transport.CheckID(id); err != nil {
		return "", wrong{http.StatusNotFound, "there is no such conversation"}
	}
	return id, nil
}

// fold returns the turns of a conversation. each, if set, is called with each entry and the turns that it changed.
func (c *Console) fold(ctx context.Context, contextID string, keep view.Keep, each func(*conversation.Entry, []*view.Turn)) (*view.Turns, error) {
	turns := view.NewTurns(c.cfg.Client.Tenant, contextID, keep)
	for e, err := range c.cfg.Store.Load(ctx, c.cfg.Client.Tenant, contextID, 0) {
		if err != nil {
			return nil, err
		}
		changed, err := turns.Add(e)
		if err != nil {
			return nil, err
		}
		if each != nil {
			each(e, changed)
		}
	}
	return turns, nil
}

func (c *Console) chat(w http.ResponseWriter, r *http.Request, who Person) error {
	id, err := contextOf(r)
	if err != nil {
		return err
	}
	ctx := r.Context()
	if wantsJSON(r) {
		return c.logLines(w, r, id, who)
	}
	keep := view.Keep{Turns: maxTurns, Text: maxText, All: maxShown}
	all := r.URL.Query().Has("all")
	if all {
		keep.Turns, keep.All = mostTurns, maxAll
	}
	leave, err := c.enterPage(ctx, w, who, 2*keep.All)
	if err != nil {
		return err
	}
	defer leave()
	turns, err := c.fold(ctx, id, keep, nil)
	if err != nil {
		return err
	}
	list, err := c.list(ctx, r.URL.Query().Get("q"), id)
	if err != nil {
		return err
	}
	conv := turns.Conversation
	data := &chatData{
		ContextID: id, MessageID: c.cfg.Client.NextID(), Earlier: turns.Earlier, All: all, Version: conv.Version, List: list, Closed: c.closed(conv, who),
		Shared: strings.Join(conv.Shared, ", "), New: len(turns.List) == 0, Agents: len(c.cfg.Agents().Routable()),
	}
	if sent := r.URL.Query().Get("sent"); sent != "" && transport.CheckID(sent) == nil {
		if data.Notice, data.Pending, err = c.fate(ctx, turns, who, sent); err != nil {
			return err
		}
	}
	open := false
	for _, t := range turns.List {
		data.Turns = append(data.Turns, c.turnData(t, turns, who))
		open = open || t.Open()
	}
	for _, t := range c.pending.shown(id, who.User, c.cfg.Now(), turns.Has) {
		data.Turns = append(data.Turns, c.turnData(t, turns, who))
		open, data.New = true, false
	}
	title := "New conversation"
	if len(turns.List) > 0 {
		title = prompt.Clean(turns.List[0].Text, 60)
	}
	c.show(w, r, http.StatusOK, &page{Name: "chat", Title: title, Section: "chat", Wide: true, Refresh: again(r, open || data.Pending), Data: data})
	return nil
}

// fate returns what came of a message that is in no turn: why it was refused, or that it is on its way.
func (c *Console) fate(ctx context.Context, turns *view.Turns, who Person, messageID string) (notice string, pending bool, err error) {
	is := func(t *view.Turn) bool { return t.MessageID == messageID && t.From == who.User }
	if slices.ContainsFunc(turns.List, is) {
		return "", false, nil
	}
	m, refused, err := storage.RefusalOf(ctx, c.cfg.Store, c.cfg.Client.Tenant, turns.Conversation.ContextID, who.User, messageID)
	switch {
	case err != nil:
		return "", false, err
	case refused:
		id := transport.TurnID(c.cfg.Client.Tenant, turns.Conversation.ContextID, who.User, messageID)
		c.pending.without(turns.Conversation.ContextID, c.cfg.Now(), func(is string) bool { return is == id })
		return transport.Text(m.Parts), false, nil
	case slices.ContainsFunc(c.pending.without(turns.Conversation.ContextID, c.cfg.Now(), turns.Has), is):
		return "", true, nil
	}
	return "Your message is on its way.", true, nil
}

// closed returns why somebody may not speak in a conversation, or "".
func (c *Console) closed(conv *conversation.Conversation, by Person) string {
	if c.cfg.Identify == nil || conv.Seq == 0 || conv.Admits(by.User) {
		return ""
	}
	return fmt.Sprintf("This conversation is %s's. They can let you in: cortex conversations share %s %s",
		who(conv.Owner), prompt.ShellWord(conv.ContextID), prompt.ShellWord(transport.PersonName(by.User)))
}

// turnData returns what is shown of a turn.
func (c *Console) turnData(t *view.Turn, turns *view.Turns, who Person) *turnData {
	return &turnData{
		Turn: t, ContextID: turns.Conversation.ContextID, MessageID: c.cfg.Client.NextID(), Mine: c.closed(turns.Conversation, who) == "", Now: c.cfg.Now(),
		Alike: c.alike(c.cfg.Agents()).named,
	}
}

// Held reports whether the turn's question is answered by yes or no.
func (d *turnData) Held() bool { return d.Waits != nil && d.Waits.Phase == conversation.Held }

// Said returns what the last decisions said beside giving out tasks.
func (d *turnData) Said() []string {
	var all []string
	for _, s := range d.Steps {
		if s.Decision != nil && len(s.Decision.Delegations) > 0 && s.Consent == "" && strings.TrimSpace(s.Decision.Say) != "" {
			all = append(all, s.Decision.Say)
		}
	}
	return all
}

// Lasted returns how long the turn took, or has taken so far.
func (d *turnData) Lasted() time.Duration {
	if d.Open() {
		return d.Now.Sub(d.Began)
	}
	return d.Answer.Time.Sub(d.Began)
}

// InChat reports whether the turn is in a chat, where those that follow appear by themselves.
func (d *turnData) InChat() bool { return true }

// Stoppable reports whether the person may stop the turn.
func (d *turnData) Stoppable() bool { return d.Mine && d.Open() }

// logLines answers with the log, as `cortex conversations history --json` prints it. Who reads has time for each entry, as the log has no bound.
func (c *Console) logLines(w http.ResponseWriter, r *http.Request, id string, who Person) error {
	leave, err := c.enterPage(r.Context(), w, who, 2*maxShown)
	if err != nil {
		return err
	}
	defer leave()
	w.Header().Set("Content-Type", "application/jsonl")
	out, found, deadlines := view.NewJSON(w), false, http.NewResponseController(w)
	for e, err := range c.cfg.Store.Load(r.Context(), c.cfg.Client.Tenant, id, 0) {
		if err == nil {
			_ = deadlines.SetWriteDeadline(time.Now().Add(writeTime)) // a test's writer has none
			err = out.Encode(e)
		}
		switch {
		case err != nil && found:
			panic(http.ErrAbortHandler) // the beginning was sent
		case err != nil:
			return err
		}
		found = true
	}
	if !found {
		return wrong{http.StatusNotFound, "there is no such conversation"}
	}
	return nil
}

// said is a message as its form has it.
type said struct {
	id, replyTo string
	text        string
	files       a2a.ContentParts
}

// say sends a message.
func (c *Console) say(w http.ResponseWriter, r *http.Request, by Person) error {
	id, err := contextOf(r)
	if err != nil {
		return err
	}
	own := c.as(by)
	room := &parts{room: c.room, who: by.User}
	defer room.give()
	m, err := c.readSaid(w, r, own, id, room)
	if err != nil {
		return err
	}
	parts := m.files
	if strings.TrimSpace(m.text) != "" {
		parts = append(a2a.ContentParts{a2a.NewTextPart(m.text)}, parts...)
	}
	turn, err := own.Send(r.Context(), &client.Message{ContextID: id, ID: m.id, Parts: parts, ReplyTo: m.replyTo})
	if err != nil {
		client.Detach(context.WithoutCancel(r.Context()), own, m.files)
		return err
	}
	now := c.cfg.Now()
	begun := &view.Turn{ID: own.ID(turn), MessageID: turn.MessageID, From: own.User, Asked: now, Began: now, Text: m.text, Files: m.files}
	c.pending.add(id, begun)
	if r.Header.Get("X-Fetch") != "" { // the page shows it at once
		html, err := fragment("turn", c.turnData(begun, view.NewTurns(own.Tenant, id, view.Keep{}), by))
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/json")
		return json.NewEncoder(w).Encode(turnEvent{"t-" + begun.ID, html})
	}
	http.Redirect(w, r, "/c/"+url.PathEscape(id)+"?sent="+url.QueryEscape(turn.MessageID)+"#end", http.StatusSeeOther)
	return nil
}

// readSaid reads the form of a message. Files are stored as they come.
func (c *Console) readSaid(w http.ResponseWriter, r *http.Request, own *client.Client, contextID string, room *parts) (_ *said, err error) {
	m := &said{}
	field := func(name, value string) error {
		value = strings.ReplaceAll(value, "\r\n", "\n")
		switch name {
		case "text", "yes":
			if value != "" {
				m.text = value
			}
		case "message":
			if m.id = value; transport.CheckID(value) != nil {
				return wrong{http.StatusBadRequest, "this is no id of a message"}
			}
		case "reply_to":
			if m.replyTo = value; transport.CheckID(value) != nil {
				return wrong{http.StatusBadRequest, "this is no id of a turn"}
			}
		}
		return nil
	}
	if !isMultipart(r) {
		if err := r.ParseForm(); err != nil {
			return nil, wrong{http.StatusBadRequest, "the form cannot be read"}
		}
		for name := range r.PostForm {
			if err := field(name, r.PostForm.Get(name)); err != nil {
				return nil, err
			}
		}
		return m, nil
	}
	defer func() {
		if err != nil {
			client.Detach(context.WithoutCancel(r.Context()), own, m.files)
		}
	}()
	late := time.Now().Add(uploadTime)
	deadlines := http.NewResponseController(w)
	_ = deadlines.SetReadDeadline(late) // a test's writer has none
	_ = deadlines.SetWriteDeadline(late)
	form, err := r.MultipartReader()
	if err != nil {
		return nil, wrong{http.StatusBadRequest, "the form cannot be read"}
	}
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return m, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the form cannot be read: %w", err)
		}
		if part.FileName() == "" {
			b, err := room.read(r.Context(), part, transport.MaxText+1)
			if err == nil {
				err = field(part.FormName(), string(b))
			}
			if err != nil {
				return nil, err
			}
			continue
		}
		if len(m.files) == transport.MaxFiles {
			return nil, wrong{http.StatusRequestEntityTooLarge, fmt.Sprintf("a message has at most %d files", transport.MaxFiles)}
		}
		file, err := c.readFile(r.Context(), part, own, contextID, room)
		if err != nil {
			return nil, err
		}
		m.files = append(m.files, file)
	}
}

// readFile stores a file of a form.
func (c *Console) readFile(ctx context.Context, part *multipart.Part, own *client.Client, contextID string, room *parts) (*a2a.Part, error) {
	kind := part.Header.Get("Content-Type")
	name := transport.FileName(part.FileName(), kind, 1)
	limit := c.cfg.MaxFile
	limit = cmp.Or(max(limit, 0), MaxBody)
	small, err := io.ReadAll(io.LimitReader(part, transport.MaxInlineFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", prompt.Clean(name, maxWord), err)
	}
	if len(small) <= transport.MaxInlineFile {
		if err := room.take(ctx, len(small)); err != nil {
			return nil, err
		}
		return &a2a.Part{Content: a2a.Raw(small), Filename: name, MediaType: kind}, nil
	}
	files, ok := own.Transport.(transport.Files)
	if !ok {
		return nil, wrong{http.StatusRequestEntityTooLarge, "this file is too large for this Cortex"}
	}
	ref, err := transport.PutFile(ctx, files, own.Tenant, contextID, own.User, io.MultiReader(strings.NewReader(string(small)), part), limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", prompt.Clean(name, maxWord), err)
	}
	return ref.Part(name, kind), nil
}

// stop cancels a turn or a task.
func (c *Console) stop(w http.ResponseWriter, r *http.Request, who Person) error {
	id, err := contextOf(r)
	if err != nil {
		return err
	}
	if err := r.ParseForm(); err != nil {
		return wrong{http.StatusBadRequest, "the form cannot be read"}
	}
	x := transport.Cancel{TaskID: a2a.TaskID(r.PostForm.Get("task")), Turn: r.PostForm.Get("turn"), Reason: "by the user"}
	if x.TaskID == "" && x.Turn == "" {
		return wrong{http.StatusBadRequest, "what is to be stopped?"}
	}
	own := c.as(who)
	if c.cfg.Identify != nil {
		conv, err := storage.Load(r.Context(), c.cfg.Store, own.Tenant, id)
		if err != nil {
			return err
		}
		if why := conv.WhyRefused(&transport.Event{From: own.User, Payload: &x}); why != "" {
			return wrong{http.StatusForbidden, why}
		}
	}
	if err := own.Cancel(r.Context(), id, x); err != nil {
		return err
	}
	if r.Header.Get("X-Fetch") != "" {
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	http.Redirect(w, r, inside(r.PostForm.Get("back")), http.StatusSeeOther)
	return nil
}

// shownKinds are the types of files that a browser shows by itself, in a sandbox. All others are saved.
var shownKinds = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// file answers with a file of a conversation.
func (c *Console) file(w http.ResponseWriter, r *http.Request, who Person) error {
	id, err := contextOf(r)
	if err != nil {
		return err
	}
	p, err := c.findFile(r.Context(), w, who, id, r.PathValue("key"))
	if err != nil {
		return err
	}
	if p == nil || transport.IsForgotten(p) {
		return wrong{http.StatusNotFound, "there is no such file"}
	}
	files, _ := c.cfg.Client.Transport.(transport.Files)
	body, err := transport.OpenPart(r.Context(), files, c.cfg.Client.Tenant, p)
	if err != nil {
		return err
	}
	defer body.Close()
	name, kind, _, _ := transport.FileOf(p)
	name = transport.FileName(name, kind, 1)
	head := w.Header()
	head.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	head.Set("Content-Type", "application/octet-stream")
	how := "attachment"
	if slices.Contains(shownKinds, kind) {
		how = "inline"
		head.Set("Content-Type", kind)
	}
	head.Set("Content-Disposition", mime.FormatMediaType(how, map[string]string{"filename": name}))
	deadlines := http.NewResponseController(w)
	b := make([]byte, 64<<10)
	for {
		n, err := body.Read(b)
		if n > 0 {
			_ = deadlines.SetWriteDeadline(time.Now().Add(writeTime))
			if _, err := w.Write(b[:n]); err != nil {
				return nil //nolint:nilerr // who asks is gone
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			panic(http.ErrAbortHandler) // the beginning was sent
		}
	}
}

// findFile returns the file of a conversation with a key, or nil.
func (c *Console) findFile(ctx context.Context, w http.ResponseWriter, who Person, contextID, key string) (found *a2a.Part, err error) {
	leave, err := c.enterPage(ctx, w, who, 2*maxShown)
	if err != nil {
		return nil, err
	}
	defer leave()
	conv := conversation.NewConversation(c.cfg.Client.Tenant, contextID)
	for e, err := range c.cfg.Store.Load(ctx, c.cfg.Client.Tenant, contextID, 0) {
		if err != nil {
			return nil, err
		}
		if err := conv.Apply(e); err != nil {
			return nil, err
		}
		if p := fileOf(conv, conv.Turn(e.Turn), key); p != nil && (found == nil || !transport.IsForgotten(p)) { // its bytes are kept for a while
			found = p
		}
	}
	return found, nil
}

// fileOf returns the file of a turn with a key, or nil.
func fileOf(conv *conversation.Conversation, t *conversation.Turn, key string) *a2a.Part {
	if t == nil {
		return nil
	}
	all := slices.Concat(t.Files, t.Out)
	for _, task := range conv.TasksOf(t) {
		all = append(all, task.Files...)
	}
	at := slices.IndexFunc(all, func(p *a2a.Part) bool { return conversation.FileKey(p) == key })
	if at < 0 {
		return nil
	}
	return all[at]
}
