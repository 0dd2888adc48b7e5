def walk(): pass
