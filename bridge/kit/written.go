package kit

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// Told is a message for a client of gRPC, as [Telling] takes it. To send one returns before it is written, which is done as fast as the client reads.
type Told struct {
	proto.Message
	Written func() // is called once when nothing of it is left to be written, or when it cannot be encoded; not when the stream ends before
}

// Telling is a codec of gRPC that tells when messages are written. The others it passes on.
type Telling struct{ encoding.CodecV2 }

// Marshal implements [encoding.CodecV2].
func (c Telling) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*Told)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	size := proto.Size(m.Message)
	if mem.IsBelowBufferPoolingThreshold(size) { // such buffers are not counted
		defer m.Written()
		return c.CodecV2.Marshal(m.Message)
	}
	pool := telling{mem.DefaultBufferPool(), m.Written}
	b := pool.Get(size)
	if _, err := (proto.MarshalOptions{UseCachedSize: true}).MarshalAppend((*b)[:0], m.Message); err != nil {
		pool.Put(b)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(b, pool)}, nil
}

// telling is where the buffer of a message goes when nothing of it is left to be written.
type telling struct {
	mem.BufferPool
	written func()
}

// Put implements [mem.BufferPool].
func (t telling) Put(b *[]byte) {
	t.BufferPool.Put(b)
	t.written()
}
