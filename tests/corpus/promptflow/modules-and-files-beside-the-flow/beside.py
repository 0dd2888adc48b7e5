MORE = ', and '
