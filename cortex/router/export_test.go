package router

// Read is how many texts Put and Learn have taken apart.
func (x *Index) Read() int { return x.reader.texts }
