package memory

// queue is a heap for package container/heap, of elements that know their index.
type queue[T queued[T]] []T

type queued[T any] interface {
	before(T) bool
	place() *int // -1: in no queue
}

func (q queue[T]) Len() int           { return len(q) }
func (q queue[T]) Less(i, j int) bool { return q[i].before(q[j]) }
func (q queue[T]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	*q[i].place(), *q[j].place() = i, j
}

func (q *queue[T]) Push(x any) {
	t := x.(T)
	*t.place() = len(*q)
	*q = append(*q, t)
}

func (q *queue[T]) Pop() any {
	last := len(*q) - 1
	t := (*q)[last]
	clear((*q)[last:])
	*q = (*q)[:last]
	*t.place() = -1
	return t
}
