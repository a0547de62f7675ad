package agenthub

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// counted is an event for a subscriber, as the codec of the hub takes it. Send returns before an event is written, which is done as fast as the subscriber reads.
type counted struct {
	proto.Message
	written func() // is called when nothing of it is left to be written; not when the stream ends before
}

// counting is a codec that tells when events are written.
type counting struct{ encoding.CodecV2 }

// Marshal implements [encoding.CodecV2].
func (c counting) Marshal(v any) (mem.BufferSlice, error) {
	e, ok := v.(*counted)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	size := proto.Size(e.Message)
	if mem.IsBelowBufferPoolingThreshold(size) { // such buffers are not counted
		e.written()
		return c.CodecV2.Marshal(e.Message)
	}
	pool := telling{mem.DefaultBufferPool(), e.written}
	b := pool.Get(size)
	if _, err := (proto.MarshalOptions{UseCachedSize: true}).MarshalAppend((*b)[:0], e.Message); err != nil {
		pool.Put(b)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(b, pool)}, nil
}

// telling is where the buffer of an event goes when nothing of it is left to be written.
type telling struct {
	mem.BufferPool
	written func()
}

// Put implements mem.BufferPool.
func (t telling) Put(b *[]byte) {
	t.BufferPool.Put(b)
	t.written()
}
