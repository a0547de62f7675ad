// Package protoweight estimates what messages of Protocol Buffers take in memory, for the servers and clients of gRPC. Like package nesting for JSON, it
// looks at a text before it is decoded: a message of small values takes fifty times its length, so that a bound on lengths is none on memory.
package protoweight

import (
	"errors"
	"math"
	"runtime"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Estimates, in bytes.
const (
	messageWeight = 128 // a message without fields
	entryWeight   = 64  // an entry of a map, beside its message
	fieldWeight   = 24
)

// large is the size, in bytes, up to which a message is decoded at once.
const large = 64 << 10

// turns holds one for each large message that is being decoded.
var turns = make(chan struct{}, max(2, runtime.GOMAXPROCS(0)))

// maxDepth is as deep as protobuf decodes.
const maxDepth = 10_000

// codec is gRPC's codec of messages with a bound.
type codec struct {
	encoding.CodecV2
	most    int
	refusal error
	turns   chan struct{} // of the process; a test has its own
}

// NewCodec returns the codec of messages, which refuses with an error those that would take more than most bytes, before it decodes them. Of large
// ones, those that arrive together are decoded two at a time, or as many as there are processors: what is decoded takes far more memory, and all else waits behind it.
func NewCodec(most int, refusal error) encoding.CodecV2 {
	return &codec{encoding.GetCodecV2("proto"), most, refusal, turns}
}

// ErrHeavy is an error for NewCodec.
var ErrHeavy = errors.New("the message has too many values")

// Unmarshal implements [encoding.CodecV2].
func (c *codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	if data.Len() > large {
		c.turns <- struct{}{}
		defer func() { <-c.turns }()
	}
	b := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer b.Free()
	if weigh(m.ProtoReflect().Descriptor(), b.ReadOnlyData(), 0, c.most) > c.most {
		return c.refusal
	}
	return c.CodecV2.Unmarshal(mem.BufferSlice{b}, v)
}

// OfMessage estimates how much memory a message takes, in bytes.
func OfMessage(m proto.Message) int {
	b, err := proto.MarshalOptions{AllowPartial: true}.Marshal(m)
	if err != nil { // such as a text that is none, which no peer has sent
		return messageWeight * (proto.Size(m) + 1)
	}
	return weigh(m.ProtoReflect().Descriptor(), b, 0, math.MaxInt)
}

// weigh estimates how much memory a message takes when it is decoded, in bytes, or that this is more than most. b may be invalid.
func weigh(of protoreflect.MessageDescriptor, b []byte, depth, most int) int {
	w := messageWeight + len(b)
	for len(b) > 0 && w <= most {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			break // which decoding says
		}
		b = b[n:]
		if w += fieldWeight; kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(num, kind, b); n < 0 {
				break
			}
			b = b[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(b)
		if n < 0 {
			break
		}
		b = b[n:]
		f := of.Fields().ByNumber(num)
		if f == nil || f.Message() == nil || depth == maxDepth {
			continue
		}
		if f.IsMap() {
			w += entryWeight
		}
		w -= len(value)
		w += weigh(f.Message(), value, depth+1, most-w)
	}
	return w
}
