package repl

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Runes with special meanings within the edited line. They are noncharacters, which Unicode reserves for internal use, so they cannot be typed.
const (
	newlineMark = '\ufdd0' // a newline in a pasted or recalled text
	tabMark     = '\ufdd1' // a tab in a pasted or recalled text
	wakeMark    = '\ufdd2' // not text: the ui has notices
	escapeMark  = '\ufdd4' // the Escape key itself, not the beginning of a sequence
	burstMark   = '\ufdd5' // text that came at once, see keyboard.burst
	wordEndMark = '\ufdd6' // the commands e and r of vi mode, see viKeys
	replaceMark = '\ufdd7'
)

var (
	mark   = strings.NewReplacer("\n", string(newlineMark), "\t", string(tabMark))
	unmark = strings.NewReplacer(string(newlineMark), "\n", string(tabMark), "\t")
)

// Bracketed paste: on request, a terminal encloses pasted text in pasteBegin and pasteEnd.
const (
	pasteOn    = "\x1b[?2004h"
	pasteOff   = "\x1b[?2004l"
	pasteBegin = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
	deleteKey  = "\x1b[3~"
	escKey     = "\x1b"
	editKeys   = "\x18\x05" // Ctrl-X Ctrl-E
)

// lonely is how long after Escape no more bytes must come to tell the key from the beginning of a sequence.
const lonely = 50 * time.Millisecond

// jumps maps Home and End as tmux, screen and rxvt send them, which the editor does not know, to Ctrl-A and Ctrl-E.
var jumps = map[string]byte{"\x1b[1~": 0x01, "\x1b[7~": 0x01, "\x1b[4~": 0x05, "\x1b[8~": 0x05}

// maxInline is the largest paste that appears in the line itself, in bytes. The line is redrawn for each rune, so larger pastes appear as a label.
const maxInline = 512

// minBurst is the number of bytes from which text that comes at once is put into the line as a whole: the editor draws the line anew for each rune.
const minBurst = 32

// keyboard reads a terminal for the line editor. It converts a paste to text on one line, so that pasted newlines do not submit it; it drops keys
// that the editor misinterprets; and it can insert wakeMark between two keys.
//
// It reads only on request: what is typed between two lines stays in the terminal.
type keyboard struct {
	source io.Reader
	empty  func() bool // reports whether the line is empty
	onStop func()      // is called for each Ctrl-Z; nil: nobody
	asked  chan struct{}
	chunks chan keys
	woken  chan struct{}
	closed chan struct{}
	once   sync.Once

	// Used only by Read.
	reading bool   // a chunk was requested
	ready   []byte // complete keys
	held    []byte // the incomplete beginning of a key
	pasting bool
	paste   []byte // so far
	err     error
	vi      viKeys

	isVi, searches atomic.Bool // vi mode is on; the history is being searched
	edit           atomic.Bool // the line ends because the user wants to change it in an editor

	mu     sync.Mutex
	pasted []pastedText
	before []byte // text that the next line begins with
	early  []byte // keys typed while no line was read
	tail   []byte // the last of these
	pastes bool   // they end within a paste
	bursts [][]rune
}

type keys struct {
	b   []byte
	err error
}

// pastedText is a paste that a label stands for in the line.
type pastedText struct{ label, text string }

// newKeyboard reads source on request. A Read of source that does not return outlives Close.
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

// maxEarly bounds what is kept of keys typed while no line is read, in bytes.
const maxEarly = 64 << 10

// listen reads keys until ended is closed, while nobody calls Read. See editor.
func (k *keyboard) listen(ended <-chan struct{}, on func(key byte, typed string) (taken bool)) {
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

// hear handles a byte that is typed while no line is read.
func (k *keyboard) hear(b byte, on func(byte, string) bool) {
	k.mu.Lock()
	pasting := k.pastes
	if k.tail = append(k.tail, b); len(k.tail) > len(pasteEnd) {
		k.tail = k.tail[1:]
	}
	ends := string(k.tail) == pasteEnd
	k.pastes = !ends && (pasting || string(k.tail) == pasteBegin)
	if b == ctrlC && !pasting {
		k.early = unfinished(k.early) // lines behind what is canceled might be about it
	}
	k.mu.Unlock()
	if (b == ctrlC || b == ctrlD) && !pasting && on(b, "") {
		return
	}
	if b == ctrlZ && !pasting {
		k.stop()
		return
	}
	if b == enter && !pasting && k.hearLine(on) {
		return
	}
	if b == ctrlL && !pasting {
		return // there is no line to draw anew, and kept it would be part of a command
	}
	if b == ctrlU && !pasting && k.eraseLine() {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case len(k.early) < maxEarly:
		k.early = append(k.early, b)
	case ends && pasting && bytes.LastIndex(k.early, []byte(pasteBegin)) > bytes.LastIndex(k.early, []byte(pasteEnd)):
		k.early = append(k.early, pasteEnd...) // of a paste that is cut, or the next line would never end
	}
}

// stop handles Ctrl-Z.
func (k *keyboard) stop() {
	if k.onStop != nil {
		k.onStop()
	}
}

// hearLine offers the line that is complete to on, and removes it if it is taken. A line that was edited with other keys than Backspace is not offered.
func (k *keyboard) hearLine(on func(byte, string) bool) (taken bool) {
	k.mu.Lock()
	begin := bytes.LastIndexByte(k.early, enter) + 1
	line := string(k.early[begin:])
	k.mu.Unlock()
	if strings.ContainsFunc(line, func(r rune) bool { return r < 0x20 }) || !on(enter, typedAhead([]byte(line))) {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.early = k.early[:begin]
	return true
}

// eraseLine removes the incomplete line, which is what Ctrl-U does with it. A line that was edited with other keys than Backspace is left to the editor.
func (k *keyboard) eraseLine() (done bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	begin := bytes.LastIndexByte(k.early, enter) + 1
	if bytes.ContainsFunc(k.early[begin:], func(r rune) bool { return r < 0x20 }) {
		return false
	}
	k.early = k.early[:begin]
	return true
}

// Keys that end something.
const (
	ctrlC = 0x03
	ctrlD = 0x04
	ctrlL = 0x0c // draws the line anew
	ctrlU = 0x15 // erases the line
	ctrlZ = 0x1a
	enter = '\r'
)

// Keys that search the history.
const (
	ctrlR = 0x12
	ctrlS = 0x13
)

// unfinished returns the keys of the line that is not complete.
func unfinished(keys []byte) []byte {
	from, pasting := 0, false
	for i, b := range keys {
		switch {
		case !pasting && b == enter:
			from = i + 1
		case bytes.HasPrefix(keys[i:], []byte(pasteBegin)):
			pasting = true
		case bytes.HasPrefix(keys[i:], []byte(pasteEnd)):
			pasting = false
		}
	}
	return keys[from:]
}

// typedAhead returns the text that keys before a line would show, on one line.
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

// wake makes Read return wakeMark when it is called and no key is incomplete.
func (k *keyboard) wake() {
	select {
	case k.woken <- struct{}{}:
	default:
	}
}

// put makes the next line begin with text. A text that is too long for a line appears as a label.
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
	k.early, k.tail, k.pastes = nil, nil, false
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
			if k.ready = utf8.AppendRune(k.ready, wakeMark); k.vi.commands { // the mark is no command
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

// feed moves the complete keys of b to ready.
func (k *keyboard) feed(b []byte) {
	b = append(k.held, b...)
	k.held = nil
	search := false // a key that may begin one, which the editor has not had yet
	for len(b) > 0 {
		if !k.pasting && !search && !k.isVi.Load() {
			if n := plainRun(b); n >= minBurst {
				k.ready = append(k.ready, k.burst(string(b[:n]))...)
				b = b[n:]
				continue
			}
		}
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
			n = 1 // Escape followed by a key: not a key with Alt
		}
		if n == 0 && k.err == nil {
			k.held = b
			return
		}
		n = cmp.Or(n, len(b))
		key := b[:n]
		b = b[n:]
		search = search || key[0] == ctrlR || key[0] == ctrlS
		switch r, _ := utf8.DecodeRune(key); {
		case string(key) == pasteBegin:
			k.pasting = true
		case string(key) == deleteKey && k.empty():
			// The editor would take it for the end of input.
		case r == 0:
			// The same applies to NUL (Ctrl-Space).
		case r == ctrlZ: // would stop the parent process as well
			k.stop()
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

// press handles a key in vi mode.
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

// keyLen returns the length in bytes of the first key of b, or 0 when it is incomplete.
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

// partial returns the length of the longest suffix of b that is a proper prefix of word.
func partial(b []byte, word string) int {
	for n := min(len(b), len(word)-1); n > 0; n-- {
		if string(b[len(b)-n:]) == word[:n] {
			return n
		}
	}
	return 0
}

// addPaste keeps one byte more than a message may have, so that a text that is too large is refused and not cut.
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
	if text = mark.Replace(text); len(text) >= minBurst {
		text = k.burst(text)
	}
	k.ready = append(k.ready, k.vi.insert(text)...)
}

// burst returns what stands for a text of many runes among the keys: a mark that the editor replaces by the text, and draws once. Where keys are
// commands or a search, it is the text.
func (k *keyboard) burst(text string) string {
	if k.isVi.Load() || k.searches.Load() {
		return text
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.bursts = append(k.bursts, []rune(text))
	return string(burstMark)
}

// spread returns the line and the cursor with the text for the mark that was just put in before the cursor.
func (k *keyboard) spread(line []rune, pos int) ([]rune, int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var text []rune
	if len(k.bursts) > 0 {
		text, k.bursts = k.bursts[0], k.bursts[1:]
	}
	if pos == 0 || line[pos-1] != burstMark {
		return line, pos // a search began meanwhile, and has the mark
	}
	return slices.Concat(line[:pos-1], text, line[pos:]), pos - 1 + len(text)
}

// plainRun returns the length in bytes of the text that b begins with, without keys that do anything else than to appear.
func plainRun(b []byte) (n int) {
	for n < len(b) && utf8.FullRune(b[n:]) {
		r, size := utf8.DecodeRune(b[n:])
		if r < 0x20 || r == 0x7f || r >= 0xfdd0 && r <= 0xfdef || r == utf8.RuneError && size == 1 {
			break
		}
		n += size
	}
	return n
}

// label returns the label that stands for a text in the line.
func (k *keyboard) label(text string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	label := fmt.Sprintf("[paste %d: %s]", len(k.pasted)+1, count(strings.Count(text, "\n")+1, "line"))
	k.pasted = append(k.pasted, pastedText{label, text})
	return label
}

// expand replaces the labels and marks of an edited line by their texts, and forgets the pastes.
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
