package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	maxLine   = sdk.DefaultMaxLineLength
	lastWords = 2 * time.Second // for what is still written when the host or Cortex ends
)

// lines is a connection on standard input and output, with a message a line. A line that is none is answered with an error, and the next one read;
// the SDK would end the connection. When its host does not read, it ends nevertheless.
type lines struct {
	in  *bufio.Reader
	out io.Writer

	messages chan jsonrpc.Message
	ended    chan struct{} // in has ended
	open     atomic.Int64  // calls that were read and are not answered
	answered chan struct{} // holds one when one was answered
	closed   chan struct{}
	close    func()
	writing  chan struct{} // holds one while something is written
	unread   chan struct{} // closed: nothing more is written
	giveUp   func()
}

// errUnread is for what cannot be written, since the host does not read.
var errUnread = errors.New("the MCP host has not read what was written to it")

func newLines(in io.Reader, out io.Writer) *lines {
	l := &lines{
		in: bufio.NewReader(in), out: out, messages: make(chan jsonrpc.Message), ended: make(chan struct{}), closed: make(chan struct{}),
		writing: make(chan struct{}, 1), answered: make(chan struct{}, 1), unread: make(chan struct{}),
	}
	l.close, l.giveUp = sync.OnceFunc(func() { close(l.closed) }), sync.OnceFunc(func() { close(l.unread) })
	return l
}

// Connect implements [sdk.Transport].
func (l *lines) Connect(context.Context) (sdk.Connection, error) {
	go l.read() // ends with in: a read of standard input cannot be interrupted
	return l, nil
}

// SessionID implements [sdk.Connection].
func (l *lines) SessionID() string { return "" }

// Close implements [sdk.Connection].
func (l *lines) Close() error {
	l.close()
	return nil
}

// Read implements [sdk.Connection]. The SDK cancels the calls that are not answered when it returns an error, so they are given a little time.
func (l *lines) Read(ctx context.Context) (jsonrpc.Message, error) {
	ended := l.ended
	for {
		select {
		case m := <-l.messages:
			return m, nil
		case <-ended:
			if l.open.Load() <= 0 {
				return nil, io.EOF
			}
			ended = nil
		case <-l.answered:
			ended = l.ended
		case <-l.unread:
			return nil, io.EOF
		case <-l.closed:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Write implements [sdk.Connection].
func (l *lines) Write(ctx context.Context, m jsonrpc.Message) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	b, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	err = l.put(context.WithoutCancel(ctx), b)
	if _, ok := m.(*jsonrpc.Response); ok {
		l.open.Add(-1)
		select {
		case l.answered <- struct{}{}:
		default:
		}
	}
	return err
}

// put writes a line, or goes away from it when ctx ends.
func (l *lines) put(ctx context.Context, b []byte) error {
	select {
	case l.writing <- struct{}{}:
	case <-l.unread:
		return errUnread
	case <-ctx.Done():
		return ctx.Err()
	}
	done := make(chan error, 1)
	go func() { // ends with the process, if out is never read
		_, err := l.out.Write(append(b, '\n'))
		<-l.writing
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-l.unread:
		return errUnread
	case <-ctx.Done():
		return ctx.Err()
	}
}

// read reads messages until in ends.
func (l *lines) read() {
	for err := error(nil); err == nil; {
		var line []byte
		var long bool
		line, long, err = l.line()
		if line = bytes.TrimSpace(line); len(line) > 0 || long {
			m, code, why := messageOf(line, long)
			if m == nil {
				l.refuse(code, why)
				continue
			}
			if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() {
				l.open.Add(1)
			}
			select {
			case l.messages <- m:
			case <-l.closed:
				return
			}
		}
	}
	close(l.ended)
	time.AfterFunc(lastWords, l.giveUp)
}

// line returns the next line, or its beginning if it is too long.
func (l *lines) line() (line []byte, long bool, err error) {
	for {
		piece, err := l.in.ReadSlice('\n')
		if long = long || len(line)+len(piece) > maxLine; !long {
			line = append(line, piece...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}

// messageOf returns the message in a line, or the code and the words of the error that answers it.
func messageOf(line []byte, long bool) (m jsonrpc.Message, code int, why string) {
	switch {
	case long:
		return nil, jsonrpc.CodeInvalidRequest, "a message has 16 MiB at most"
	case !json.Valid(line):
		return nil, jsonrpc.CodeParseError, "this is an MCP server on standard input and output: each line is a JSON-RPC message, and this one is not JSON"
	}
	m, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		return nil, jsonrpc.CodeInvalidRequest, "each line is a JSON-RPC message, and this one is none: " + err.Error()
	}
	return m, 0, ""
}

// refuse answers a line that is no message, unless the host does not read.
func (l *lines) refuse(code int, why string) {
	ctx, end := context.WithTimeout(context.Background(), lastWords)
	defer end()
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": code, "message": why}})
	if err == nil {
		_ = l.put(ctx, b) // the next line may be better
	}
}
