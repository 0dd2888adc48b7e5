def said(a):
    return a + ' from a helper'
