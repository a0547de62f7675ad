package repl

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Runes that cannot be typed and stand for something else within the line that is edited. They are noncharacters, which
// Unicode reserves for such use.
const (
	newlineMark = '\ufdd0' // a newline of a pasted or recalled text
	tabMark     = '\ufdd1' // a tab of one
	wakeMark    = '\ufdd2' // not text: the ui has notices
	escapeMark  = '\ufdd4' // the key Escape, where that is one
)

var (
	mark   = strings.NewReplacer("\n", string(newlineMark), "\t", string(tabMark))
	unmark = strings.NewReplacer(string(newlineMark), "\n", string(tabMark), "\t")
)

// Bracketed paste: a terminal that was asked to puts pasted text between these.
const (
	pasteOn    = "\x1b[?2004h"
	pasteOff   = "\x1b[?2004l"
	pasteBegin = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
	deleteKey  = "\x1b[3~"
	escKey     = "\x1b"
	editKeys   = "\x18\x05" // Ctrl-X Ctrl-E
)

// lonely is how long it takes to see that Escape was typed, rather than a key whose sequence begins so.
const lonely = 50 * time.Millisecond

// jumps are Home and End as tmux, screen and rxvt send them, which the editor does not know: Ctrl-A and Ctrl-E do the same.
var jumps = map[string]byte{"\x1b[1~": 0x01, "\x1b[7~": 0x01, "\x1b[4~": 0x05, "\x1b[8~": 0x05}

// maxInline is the size of a paste that appears in the line as it is. The line is redrawn with each rune, so that larger
// ones appear as a label.
const maxInline = 512

// keyboard reads a terminal for the line editor. It turns a paste into text for one line, so that pasted newlines do not
// submit it; it drops keys that the editor takes for something else; and it can interject wakeMark between two keys.
//
// It reads only when asked to: what is typed between two lines stays in the terminal.
type keyboard struct {
	source io.Reader
	empty  func() bool // reports whether the line is empty
	asked  chan struct{}
	chunks chan keys
	woken  chan struct{}
	closed chan struct{}
	once   sync.Once

	// Used by Read alone.
	reading bool   // a chunk is on its way
	ready   []byte // whole keys
	held    []byte // the beginning of a key
	pasting bool
	paste   []byte // so far
	err     error
	vi      viKeys

	isVi, searches atomic.Bool // vi's keys are wanted; the history is searched
	edit           atomic.Bool // the line ends since it is to be changed in an editor

	mu     sync.Mutex
	pasted []pastedText
	before []byte // what the next line begins with
	early  []byte // keys that were typed while no line was read
}

type keys struct {
	b   []byte
	err error
}

// pastedText is a paste that is in the line as a label.
type pastedText struct{ label, text string }

// newKeyboard starts reading source when asked to; a Read of source that does not return outlives Close.
func newKeyboard(source io.Reader, empty func() bool) *keyboard {
	k := &keyboard{
		source: source, empty: empty,
		asked: make(chan struct{}), chunks: make(chan keys), woken: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	go k.pump()
	return k
}

func (k *keyboard) pump() {
	for {
		select {
		case <-k.asked:
		case <-k.closed:
			return
		}
		b := make([]byte, 4096)
		n, err := k.source.Read(b)
		select {
		case k.chunks <- keys{b[:n], err}:
		case <-k.closed:
			return
		}
	}
}

// Close makes Read return io.EOF.
func (k *keyboard) Close() error {
	k.once.Do(func() { close(k.closed) })
	return nil
}

// maxEarly bounds what is typed while no line is read, in bytes.
const maxEarly = 64 << 10

// listen reads keys until ended, while nobody calls Read. See editor.
func (k *keyboard) listen(ended <-chan struct{}, on func(key byte, typed string)) {
	for {
		if !k.reading {
			select {
			case k.asked <- struct{}{}:
				k.reading = true
			case <-k.closed:
				return
			case <-ended:
				return
			}
		}
		select {
		case c := <-k.chunks:
			if k.reading, k.err = false, c.err; c.err != nil {
				return
			}
			for _, b := range c.b {
				k.hear(b, on)
			}
			k.mu.Lock()
			typed := typedAhead(k.early)
			k.mu.Unlock()
			on(0, typed)
		case <-k.closed:
			return
		case <-ended:
			return
		}
	}
}

// hear takes a byte of what is typed while no line is read.
func (k *keyboard) hear(b byte, on func(byte, string)) {
	k.mu.Lock()
	pasting := bytes.LastIndex(k.early, []byte(pasteBegin)) > bytes.LastIndex(k.early, []byte(pasteEnd))
	switch {
	case (b == ctrlC || b == ctrlD) && !pasting:
		if b == ctrlC { // as a terminal does itself
			k.early = nil
		}
		k.mu.Unlock()
		on(b, "")
		return
	case len(k.early) < maxEarly:
		k.early = append(k.early, b)
	}
	k.mu.Unlock()
}

// Keys that end something.
const (
	ctrlC = 0x03
	ctrlD = 0x04
)

// typedAhead returns what is seen of keys before a line is read, on one line.
func typedAhead(keys []byte) string {
	var line []rune
	for _, r := range string(keys) {
		switch {
		case r == 0x7f && len(line) > 0:
			line = line[:len(line)-1]
		case r == '\r', r == '\n':
			line = append(line, '↵')
		case r != 0x7f:
			line = append(line, r)
		}
	}
	return oneLine(string(line))
}

// wake makes Read return wakeMark as soon as somebody reads and no key is half read.
func (k *keyboard) wake() {
	select {
	case k.woken <- struct{}{}:
	default:
	}
}

// put has the next line begin with a text: one that is too long for a line appears as a label.
func (k *keyboard) put(text string) {
	text = Sanitize(text)
	if len(text) > maxRecall {
		text = k.label(text)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.before = append(k.before, mark.Replace(text)...)
}

// Read implements io.Reader.
func (k *keyboard) Read(p []byte) (int, error) {
	k.mu.Lock()
	k.ready, k.before = append(k.ready, k.before...), nil
	early := k.early
	k.early = nil
	k.mu.Unlock()
	if !k.isVi.Load() {
		k.vi = viKeys{}
	}
	if len(early) > 0 {
		k.feed(early)
	}
	for len(k.ready) == 0 {
		if k.err != nil {
			return 0, k.err
		}
		if !k.reading {
			select {
			case k.asked <- struct{}{}:
				k.reading = true
			case <-k.closed:
				return 0, io.EOF
			}
		}
		var alone <-chan time.Time
		if string(k.held) == escKey && k.isVi.Load() {
			alone = time.After(lonely)
		}
		select {
		case c := <-k.chunks:
			k.reading, k.err = false, c.err
			k.feed(c.b)
		case <-alone:
			k.held = nil
			k.press(escKey)
		case <-k.woken:
			if k.ready = utf8.AppendRune(k.ready, wakeMark); k.vi.commands { // it is no command
				k.ready = []byte("i" + string(wakeMark) + string(escapeMark))
			}
		case <-k.closed:
			return 0, io.EOF
		}
	}
	n := copy(p, k.ready)
	k.ready = k.ready[n:]
	return n, nil
}

// feed moves the whole keys of what was read to ready.
func (k *keyboard) feed(b []byte) {
	b = append(k.held, b...)
	k.held = nil
	for len(b) > 0 {
		if k.pasting {
			end := bytes.Index(b, []byte(pasteEnd))
			if end < 0 {
				keep := partial(b, pasteEnd)
				k.addPaste(b[:len(b)-keep])
				k.held = b[len(b)-keep:]
				return
			}
			k.addPaste(b[:end])
			k.endPaste()
			b = b[end+len(pasteEnd):]
			continue
		}
		n := keyLen(b)
		if b[0] == escKey[0] && n == 2 && k.isVi.Load() {
			n = 1 // no key with Alt
		}
		if n == 0 && k.err == nil {
			k.held = b
			return
		}
		if n == 0 {
			n = len(b)
		}
		key := b[:n]
		b = b[n:]
		switch r, _ := utf8.DecodeRune(key); {
		case string(key) == pasteBegin:
			k.pasting = true
		case string(key) == deleteKey && k.empty():
			// The editor would take it for the end of input.
		case r == 0, r == 0x1a:
			// Likewise for NUL (Ctrl-Space); and Ctrl-Z would stop the parent process as well.
		case r >= 0xfdd0 && r <= 0xfdef, r == 0x18 && n == 1:
		case string(key) == editKeys:
			k.edit.Store(true)
			k.ready, k.vi = append(k.ready, '\r'), viKeys{}
		case k.isVi.Load():
			k.press(string(key))
		case jumps[string(key)] != 0:
			k.ready = append(k.ready, jumps[string(key)])
		default:
			k.ready = append(k.ready, key...)
		}
	}
}

// press takes a key of one who types as in vi.
func (k *keyboard) press(key string) {
	if key == escKey && k.searches.Load() {
		k.ready = append(k.ready, 0x07) // ends the search
		return
	}
	send, edit := k.vi.next(key, k.empty())
	if edit {
		k.edit.Store(true)
	}
	if jump := jumps[send]; jump != 0 {
		send = string(jump)
	}
	k.ready = append(k.ready, send...)
}

// keyLen returns the length of the key that b begins with, or 0 when its end has not come.
func keyLen(b []byte) int {
	const longest = 32 // escape sequences of keys are shorter
	if b[0] == editKeys[0] {
		switch {
		case len(b) == 1:
			return 0
		case b[1] == editKeys[1]:
			return 2
		}
		return 1
	}
	if b[0] != 0x1b {
		if !utf8.FullRune(b) {
			return 0
		}
		_, n := utf8.DecodeRune(b)
		return n
	}
	switch {
	case len(b) == 1:
		return 0
	case b[1] == '[':
		for i := 2; i < len(b); i++ {
			if b[i] < 0x20 || b[i] > 0x3f || i == longest {
				return i + 1
			}
		}
		return 0
	case b[1] == 'O':
		if len(b) == 2 {
			return 0
		}
		return 3
	}
	return 2
}

// partial returns the length of the longest end of b that begins word.
func partial(b []byte, word string) int {
	for n := min(len(b), len(word)-1); n > 0; n-- {
		if string(b[len(b)-n:]) == word[:n] {
			return n
		}
	}
	return 0
}

// addPaste keeps one byte more than may be sent, so that a text too large is refused and not cut.
func (k *keyboard) addPaste(b []byte) {
	k.paste = append(k.paste, b[:min(len(b), transport.MaxText+1-len(k.paste))]...)
}

// endPaste puts the paste into the line.
func (k *keyboard) endPaste() {
	text := strings.ReplaceAll(string(k.paste), "\r\n", "\n")
	text = strings.Trim(Sanitize(strings.ReplaceAll(text, "\r", "\n")), "\n")
	k.pasting, k.paste = false, nil
	if len(text) > maxInline {
		text = k.label(text)
	}
	k.ready = append(k.ready, k.vi.insert(mark.Replace(text))...)
}

// label returns what stands for a text in the line.
func (k *keyboard) label(text string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	label := fmt.Sprintf("[paste %d: %s]", len(k.pasted)+1, count(strings.Count(text, "\n")+1, "line"))
	k.pasted = append(k.pasted, pastedText{label, text})
	return label
}

// expand returns what the edited line means, and forgets the pastes.
func (k *keyboard) expand(line string) string {
	k.mu.Lock()
	pasted := k.pasted
	k.pasted = nil
	k.mu.Unlock()
	line = unmark.Replace(line)
	for _, p := range pasted {
		line = strings.Replace(line, p.label, p.text, 1)
	}
	return line
}
