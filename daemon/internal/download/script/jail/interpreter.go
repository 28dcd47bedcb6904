package jail

// Interpreter is a program that a process in jail becomes: all that it may read, and no more.
type Interpreter struct {
	Path  string   // of the program
	Args  []string // with its name as the first
	Dirs  []string // whose files it may read
	Files []string // it may read, and the kernel run: the program, its dynamic linker and libraries
}
