package router

// Read returns the number of texts that Put and Learn have parsed.
func (x *Index) Read() int { return x.reader.texts }
